#include "door/grpc/port_rules.h"

#include "absl/strings/str_cat.h"
#include "transport/grpc/credentials.h"
#include "transport/grpc/grpc_address.h"
#include "transport/private_folder.h"

namespace tutti::door {
namespace {

using transport::Role;
using transport::RoleSet;

// Half of a set of flags is a mistake: what was meant to protect would be left out.
absl::Status CheckFlags(const PublicPort& port) {
  const transport::TlsFiles& tls = port.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert and --tls-key belong together; ",
                                                   tls.key.empty() ? "--tls-key" : "--tls-cert",
                                                   " is missing"));
  }
  if (tls.certificate.empty() && !tls.authority.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca needs --tls-cert and --tls-key: without TLS nobody shows a certificate");
  }
  if (port.without_clients_ca && !tls.authority.empty()) {
    return absl::InvalidArgumentError(
        "--public-without-clients-ca and --tls-client-ca contradict each other");
  }
  if (port.plaintext && tls.any()) {
    return absl::InvalidArgumentError(
        "--public-plaintext and --tls-cert, --tls-key or --tls-client-ca contradict each other");
  }
  if (transport::IsLocalAddress(port.listen) || port.plaintext) return absl::OkStatus();
  if (tls.certificate.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--listen ", port.listen,
                     ": without --tls-cert and --tls-key only loopback addresses "
                     "(127.0.0.1, [::1], localhost) and unix: sockets are served; where a mesh's "
                     "proxy encrypts, tutti-coordinator --public-plaintext does without"));
  }
  if (!tls.authority.empty() || port.without_clients_ca) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--listen ", port.listen,
                   ": whoever reaches this address could use the service; give --tls-client-ca, "
                   "or say --public-without-clients-ca if something else keeps strangers out"));
}

}  // namespace

RoleSet PublicRoles(const PublicPort& port) {
  if (port.role == "gateway") return {Role::kGateway};
  if (port.role == "client") return {Role::kClient};
  const std::string folder = transport::SocketFolder(port.listen);
  const bool is_private = !folder.empty() && transport::CheckPrivateFolder(folder).ok();
  return is_private ? RoleSet{Role::kGateway} : RoleSet{Role::kClient};
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PublicCredentials(const PublicPort& port) {
  TUTTI_RETURN_IF_ERROR(CheckFlags(port));
  auto credentials =
      transport::MakeServerCredentials(port.listen, port.tls,
                                       {.without_certificate = PublicRoles(port),
                                        .certificates_needed = !port.tls.authority.empty(),
                                        .plaintext = port.plaintext});
  if (!credentials.ok()) return Annotate(credentials.status(), "--tls-cert");
  return credentials;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> OperatorCredentials(
    const std::string& address, const PublicPort& port) {
  const std::string where = absl::StrCat("--admin-listen ", address);
  const std::string folder = transport::SocketFolder(address);
  if (!folder.empty()) {
    TUTTI_RETURN_IF_ERROR(Annotate(transport::MakePrivateFolder(folder), where));
    return transport::MakeServerCredentials(address, {},
                                            {.without_certificate = {Role::kOperator}});
  }
  if (port.tls.certificate.empty() || port.tls.authority.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(where,
                     ": an operator who comes over TCP needs a certificate; give --tls-cert, "
                     "--tls-key and --tls-client-ca, or unix:/FOLDER/NAME with a folder of mode "
                     "0700"));
  }
  return transport::MakeServerCredentials(address, port.tls, {});
}

}  // namespace tutti::door
