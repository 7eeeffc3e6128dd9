// Who asks, as the door learns it and as the rest of the coordinator knows it.
//
// Thread: any; immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coordinator/kv/prefix_hash.h"

namespace tutti::coordinator {

// Metadata of a call that names its tenant, as a gateway sets it.
inline constexpr char kTenantMetadata[] = "x-tutti-tenant";

// The tenant of a call by its request's field and the values of its metadata. INVALID_ARGUMENT when
// they contradict each other, when the metadata names several, or when the name is too long.
absl::StatusOr<std::string> TenantOf(const std::string& field,
                                     const std::vector<std::string>& metadata);

// From the system's source. Nobody outside can then choose names or prompts whose hashes collide.
Hash128 RandomKey();

// Turns names into what stands for them: a hash under a random key of this process, so that a
// client who chooses names cannot make two of them meet, and no name is kept or logged.
class TenantHasher {
 public:
  TenantHasher();

  // All zeros for the empty name, which is nobody in particular; never so for another.
  Hash128 Hash(std::string_view tenant) const;

 private:
  const Hash128 key_;
};

}  // namespace tutti::coordinator
