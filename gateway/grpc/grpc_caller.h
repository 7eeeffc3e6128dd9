// The caller of a gRPC method, by the rules that callers over HTTP are admitted by.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/caller_rules.h"
#include "gateway/door_rules.h"

namespace tutti::gateway {

struct GrpcCaller {
  std::string tenant;                // of its key; empty without keys
  std::string host;                  // its address without the port
  std::string account;               // whose that is, as HttpPeer has it
  std::vector<std::string> tenants;  // that its metadata names
  std::string traceparent;           // that the service is told; empty: none, or none that is right
  Instant deadline = kInstantNever;

  // Who pays (OwnerName).
  std::string owner() const { return OwnerName(tenant, account); }
  // The time until its deadline, at least zero; nothing: it has none.
  std::optional<Duration> TimeLeft() const;
};

// UNAUTHENTICATED or PERMISSION_DENIED for who is not let in. The key is that of the metadata
// "authorization: Bearer KEY", the Host is ":authority".  Thread: any.
absl::StatusOr<GrpcCaller> AdmitCall(const DoorRules& rules,
                                     const grpc::CallbackServerContext& context);

}  // namespace tutti::gateway
