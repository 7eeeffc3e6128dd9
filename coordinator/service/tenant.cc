#include "coordinator/service/tenant.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

Hash128 RandomKey() {
  std::random_device random;
  const auto bits = [&random] { return uint64_t{random()} << 32 | random(); };
  return {bits(), bits()};
}

absl::StatusOr<std::string> TenantOf(const std::string& field,
                                     const std::vector<std::string>& metadata) {
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
  return tenant;
}

TenantHasher::TenantHasher() : key_(RandomKey()) {}

Hash128 TenantHasher::Hash(std::string_view tenant) const {
  if (tenant.empty()) return {};
  const Hash128 hash = HashBytes(key_, tenant);
  return hash == Hash128{} ? Hash128{1, 0} : hash;
}

}  // namespace tutti::coordinator
