// The mark that stands for a tenant in the gateway's log: its name is never written there.
#pragma once

#include <string_view>

#include "base/sip_hash.h"

namespace tutti::gateway {

// A mark by a random key of this process, so that nobody finds a name by trying some; all zeros for
// the empty name, which is no tenant.  Thread: any.
Hash128 TenantMark(std::string_view tenant);

}  // namespace tutti::gateway
