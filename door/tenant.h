// The tenant of a request: its name as the service receives it, and the hash that stands for it in
// the rest of the coordinator.
//
// Thread: any; immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/sip_hash.h"
#include "base/status.h"
#include "transport/roles.h"

namespace tutti::door {

// Metadata of a call that names its tenant, as a gateway sets it.
inline constexpr char kTenantMetadata[] = "x-tutti-tenant";
// By which a gateway says whose a call is among those of its tenant.
inline constexpr char kAccountMetadata[] = "x-tutti-account";

// The claims that a caller may say about a request beside the request itself.
struct AskerRights {
  std::string own_tenant;        // of requests that name none
  bool may_name_tenant = false;  // another than its own
  bool may_hurry = false;        // a priority below 0
};

// A client asks for itself, under the name of its certificate if it has one; a gateway asks for
// others too, an operator may look at all.
AskerRights RightsOf(const transport::Caller& caller);

// The tenant of a call by its request's field and the values of its metadata. INVALID_ARGUMENT when
// they contradict each other, when the metadata names several, or when the name is too long;
// PERMISSION_DENIED when the caller may not ask for it.
absl::StatusOr<std::string> TenantOf(const std::string& field,
                                     const std::vector<std::string>& metadata,
                                     const AskerRights& rights);

// The account of a call by the values of its metadata: any text, which is only hashed; empty: it
// has none. INVALID_ARGUMENT for several and for one that is too long, PERMISSION_DENIED when the
// caller may not name one.
absl::StatusOr<std::string> AccountOf(const std::vector<std::string>& metadata,
                                      const AskerRights& rights);

// PERMISSION_DENIED when the caller may not ask with this priority.
absl::Status CheckHurry(int32_t priority, const AskerRights& rights);

// A key from the system's source, so that no client can choose names or prompts whose hashes
// collide.
Hash128 RandomKey();

// The part of a client's address (see ClientOf) that its connections share: without the port, and
// of IPv6 the network of 64 bits, of which one host may have every address.
std::string HostOf(std::string_view client);

// Turns names into hashes under a random key of this process, so that a client that chooses names
// cannot make two of them collide, and no name is kept or logged.
class TenantHasher {
 public:
  TenantHasher();

  // All zeros for the empty name, which is no tenant in particular; never so for another.
  Hash128 Hash(std::string_view tenant) const;
  // The domain in which the K/V of requests with this salt is looked up; `domain` itself for the
  // empty salt.
  Hash128 HashSalt(const Hash128& domain, std::string_view salt) const;
  // The owner of a request and of its name: the account among those of the tenant, or without one
  // the tenant, or for callers of none the host that they call from, so that nobody meets the names
  // of others by chance. `client`: see ClientOf.
  Hash128 HashOwner(const Hash128& tenant, std::string_view account, std::string_view client) const;

 private:
  const Hash128 key_;
  const Hash128 key_of_hosts_;
  const Hash128 key_of_accounts_;
  const Hash128 key_of_salts_;
};

}  // namespace tutti::door
