// The claims that a caller may not make about its request, because the service believes it of a
// gateway: one set of rules for all front ends.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::gateway {

// PERMISSION_DENIED for a priority that goes before others.
absl::Status CheckPriority(int32_t priority);

// PERMISSION_DENIED for a tenant in the request, or in its metadata, that is not the caller's own.
// `own`: by its key; empty: it has none.
absl::Status CheckTenant(std::string_view in_request, const std::vector<std::string>& in_metadata,
                         std::string_view own);

// The name under which the service knows a request. It keeps the names of tenants apart, and those
// of callers without one by their hosts; but it sees the gateway's host only.
std::string NameForService(const std::string& name, std::string_view tenant, std::string_view host);

}  // namespace tutti::gateway
