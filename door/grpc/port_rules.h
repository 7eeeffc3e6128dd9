// The rules of the coordinator's public port and its operator's port for their callers.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/certificates.h"
#include "transport/roles.h"

namespace tutti::door {

struct PublicPort {
  std::string listen;
  transport::TlsFiles tls;          // its authority is the clients'; empty: clients need none
  bool without_clients_ca = false;  // an outside address may do without that authority
  bool plaintext = false;           // an outside address may do without TLS
  // The role of callers without a certificate: "client", "gateway", or "auto": gateway where only
  // this user can connect (a socket in a private folder), else client.
  std::string role = "auto";
};

// FAILED_PRECONDITION and INVALID_ARGUMENT name the flag; errors of MakeServerCredentials.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PublicCredentials(const PublicPort& port);
// The role of callers of the public port who show no certificate.
transport::RoleSet PublicRoles(const PublicPort& port);

// Credentials for the operator's port at `address`: a socket in a private folder, which is made
// where it is missing, or with the public port's certificate and its clients' authority.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> OperatorCredentials(
    const std::string& address, const PublicPort& port);

}  // namespace tutti::door
