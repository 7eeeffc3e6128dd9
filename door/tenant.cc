#include "door/tenant.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/ip_network.h"
#include "door/limits.h"

namespace tutti::door {
namespace {

Hash128 HashWithin(const Hash128& key, const Hash128& outer, std::string_view name) {
  std::string both(2 * sizeof(uint64_t), '\0');
  std::memcpy(both.data(), &outer.low, sizeof(uint64_t));
  std::memcpy(both.data() + sizeof(uint64_t), &outer.high, sizeof(uint64_t));
  both.append(name);
  return HashBytes(key, both);
}

}  // namespace

Hash128 RandomKey() {
  std::random_device random;
  const auto bits = [&random] { return uint64_t{random()} << 32 | random(); };
  return {bits(), bits()};
}

AskerRights RightsOf(const transport::Caller& caller) {
  using transport::Role;
  AskerRights rights;
  for (const Role role : {Role::kClient, Role::kGateway}) {
    const std::string* const name = caller.NameAs(role);
    if (name != nullptr && rights.own_tenant.empty()) rights.own_tenant = *name;
  }
  rights.may_hurry = caller.roles.Has(Role::kGateway);
  rights.may_name_tenant = rights.may_hurry || caller.roles.Has(Role::kOperator);
  return rights;
}

absl::Status CheckHurry(int32_t priority, const AskerRights& rights) {
  if (priority >= 0 || rights.may_hurry) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("priority is ", priority,
                   "; only a gateway may go before others (below 0), and "
                   "this caller is a client (--public-role)"));
}

absl::StatusOr<std::string> TenantOf(const std::string& field,
                                     const std::vector<std::string>& metadata,
                                     const AskerRights& rights) {
  if (metadata.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata ", kTenantMetadata, ": given ", metadata.size(), " times"));
  }
  const bool in_metadata = !metadata.empty() && !metadata.front().empty();
  if (in_metadata && !field.empty() && field != metadata.front()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant and the metadata ", kTenantMetadata, " name two different tenants"));
  }
  const std::string& tenant = in_metadata ? metadata.front() : field;
  if (static_cast<int64_t>(tenant.size()) > kTenantBytesMax) {
    const std::string where = in_metadata ? absl::StrCat("metadata ", kTenantMetadata) : "tenant";
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is longer than ", kTenantBytesMax, " bytes"));
  }
  if (tenant.empty()) return rights.own_tenant;
  if (tenant == rights.own_tenant || rights.may_name_tenant) return tenant;
  return absl::PermissionDeniedError(
      absl::StrCat(in_metadata ? absl::StrCat("metadata ", kTenantMetadata) : "tenant",
                   " names a tenant; only a gateway may do that, and this caller is a client "
                   "(--public-role)"));
}

absl::StatusOr<std::string> AccountOf(const std::vector<std::string>& metadata,
                                      const AskerRights& rights) {
  if (metadata.empty()) return std::string();
  if (metadata.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata ", kAccountMetadata, ": given ", metadata.size(), " times"));
  }
  if (static_cast<int64_t>(metadata.front().size()) > kTenantBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata ", kAccountMetadata, " is longer than ", kTenantBytesMax, " bytes"));
  }
  if (rights.may_name_tenant) return metadata.front();
  return absl::PermissionDeniedError(
      absl::StrCat("metadata ", kAccountMetadata,
                   " says whose the request is; only a gateway may do that, and this caller is a "
                   "client (--public-role)"));
}

std::string HostOf(std::string_view client) {
  // "ipv4:10.0.0.7:4001", "ipv6:%5Bfd00::7%5D:4001"; the name of a Unix socket has no port.
  if (client.substr(0, 5) == "unix:") return std::string(client);
  const std::string_view host = client.substr(0, client.rfind(':'));
  constexpr std::string_view kBegin = "ipv6:%5B", kEnd = "%5D";
  if (!host.starts_with(kBegin) || !host.ends_with(kEnd)) return std::string(host);
  std::optional<IpAddress> parsed =
      IpAddress::Parse(host.substr(kBegin.size(), host.size() - kBegin.size() - kEnd.size()));
  if (!parsed.has_value()) return std::string(host);
  if (!parsed->is_v6) return absl::StrCat("ipv4:", parsed->ToString());
  std::fill(parsed->bytes.begin() + 8, parsed->bytes.end(), uint8_t{0});
  return absl::StrCat("ipv6:", parsed->ToString(), "/64");
}

TenantHasher::TenantHasher()
    : key_(RandomKey()),
      key_of_hosts_(RandomKey()),
      key_of_accounts_(RandomKey()),
      key_of_salts_(RandomKey()) {}

Hash128 TenantHasher::Hash(std::string_view tenant) const {
  if (tenant.empty()) return {};
  const Hash128 hash = HashBytes(key_, tenant);
  return hash == Hash128{} ? Hash128{1, 0} : hash;
}

Hash128 TenantHasher::HashSalt(const Hash128& domain, std::string_view salt) const {
  return salt.empty() ? domain : HashWithin(key_of_salts_, domain, salt);
}

Hash128 TenantHasher::HashOwner(const Hash128& tenant, std::string_view account,
                                std::string_view client) const {
  if (!account.empty()) return HashWithin(key_of_accounts_, tenant, account);
  return tenant != Hash128{} ? tenant : HashBytes(key_of_hosts_, HostOf(client));
}

}  // namespace tutti::door
