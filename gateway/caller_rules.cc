#include "gateway/caller_rules.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// SHA-256 in hexadecimal digits.
std::string HexDigest(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

}  // namespace

absl::Status CheckPriority(int32_t priority) {
  if (priority >= 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("priority is ", priority, "; callers of a gateway may not go before others"));
}

absl::Status CheckTenant(std::string_view in_request, const std::vector<std::string>& in_metadata,
                         std::string_view own) {
  const auto is_others = [own](std::string_view said) { return !said.empty() && said != own; };
  if (is_others(in_request)) {
    return absl::PermissionDeniedError(
        "tenant names another than the key's; a caller of a gateway asks for itself");
  }
  if (std::any_of(in_metadata.begin(), in_metadata.end(), is_others)) {
    return absl::PermissionDeniedError(
        "metadata x-tutti-tenant names another than the key's; a caller of a gateway asks for "
        "itself");
  }
  return absl::OkStatus();
}

void SetTenant(const std::string& tenant, bool named, v1::GenerateRequest* call) {
  call->set_tenant(named ? tenant : "");
  if (named || tenant.empty()) return;
  // No salt has a line end before its own.
  call->set_cache_salt(HexDigest(absl::StrCat(tenant, "\n", call->cache_salt())));
}

std::string AccountForService(const std::string& tenant, const std::string& owner, bool named) {
  return named && tenant.empty() ? owner : "";
}

std::string OwnerName(const std::string& tenant, const std::string& account) {
  return tenant.empty() ? "at " + account : "of " + tenant;
}

ApiError NoMoreBytes() {
  ApiError error = MakeError(429,
                             "as many bytes of large requests are held for this caller as may be "
                             "now; try again");
  error.retry_after = std::chrono::seconds(1);
  return error;
}

std::string NameForService(const std::string& name, std::string_view tenant,
                           std::string_view host) {
  // One that is too long the service refuses.
  if (name.empty() || name.size() > kServiceNameBytesMax || !tenant.empty()) return name;
  const std::string mark = "@" + HexDigest(host).substr(0, kHostDigits);
  if (name.size() + mark.size() <= kServiceNameBytesMax) return name + mark;
  return HexDigest(name) + mark;
}

}  // namespace tutti::gateway
