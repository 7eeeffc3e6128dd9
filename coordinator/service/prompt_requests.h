// Requests that have a prompt and compute nothing: Tokenize, and the look-up of a prompt in the KV
// cache.
//
// INVALID_ARGUMENT names the field at fault.  Thread: any.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "coordinator/service/served_model.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// The ids of a text or conversation of any length, as Generate would see them.
absl::Status Tokenize(const v1::TokenizeRequest& request, const ServedModel& model,
                      v1::TokenizeResponse* response);

// A prompt to be looked up.
struct Lookup {
  std::string tenant;
  std::vector<TokenId> tokens;
};

// The prompt may be as long as the served context; no worker holds more.
//
//   tenants  of the call's metadata
absl::StatusOr<Lookup> ReadLookup(const v1::LookupPrefixRequest& request,
                                  const std::vector<std::string>& tenants,
                                  const ServedModel& model);

}  // namespace tutti::coordinator
