// Where links may lead, and with which certificates.  Thread: any.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/grpc/grpc_link.h"

namespace tutti::transport {

// Whether bytes to or from "host:port" or "unix:/path" stay on this machine. False for anything
// else.
bool IsLocalAddress(const std::string& address);

// `address` with `port` in place of the one it names; a unix address as it is.
std::string WithPort(const std::string& address, int port);

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& tls);

}  // namespace tutti::transport
