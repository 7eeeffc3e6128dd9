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
#include "gateway/api_error.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// PERMISSION_DENIED for a priority that goes before others.
absl::Status CheckPriority(int32_t priority);

// PERMISSION_DENIED for a tenant in the request, or in its metadata, that is not the caller's own.
// `own`: by its key; empty: it has none.
absl::Status CheckTenant(std::string_view in_request, const std::vector<std::string>& in_metadata,
                         std::string_view own);

// Says whose the call is. `named`: the service takes names of tenants from this gateway; else the
// call is of no tenant, but its cached prompts are its tenant's own all the same.
void SetTenant(const std::string& tenant, bool named, v1::GenerateRequest* call);

// Whose a call is among those of its tenant, as the service is told; empty: it is not. Of a caller
// that has a tenant that one says it, of others the service sees the gateway's address only.
// `owner`: see OwnerName.
std::string AccountForService(const std::string& tenant, const std::string& owner, bool named);

// For whom bytes are held and work is done: the tenant, or for callers without one their account.
// No name of one kind is of the other.
std::string OwnerName(const std::string& tenant, const std::string& account);

// 429 for an owner that has as many bytes here as it may now.
ApiError NoMoreBytes();

// The name under which the service knows a request. It keeps the names of tenants apart, and those
// of callers without one by their hosts; but it sees the gateway's host only.
std::string NameForService(const std::string& name, std::string_view tenant, std::string_view host);

}  // namespace tutti::gateway
