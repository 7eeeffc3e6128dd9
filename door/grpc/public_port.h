// Bounds of the public port that gRPC keeps for us: on connections that have gone silent, and on
// what it holds before anybody reads it.
#pragma once

#include <grpcpp/grpcpp.h>

namespace tutti::door {

// Each bound with its derivation in limits.h.
void ConfigurePublicPort(grpc::ServerBuilder* builder);

}  // namespace tutti::door
