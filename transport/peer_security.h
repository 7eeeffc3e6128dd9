// How a process of the cluster and its peers prove to each other who they are: by certificates, by
// the cluster's secret, or by nothing where only this user can reach the socket.
//
// Thread: any.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/certificates.h"
#include "transport/cluster_secret.h"
#include "transport/link_gate.h"
#include "transport/roles.h"

namespace tutti::transport {

struct PeerSecurityFlags {
  TlsFiles tls;
  std::string secret_file;
};

class PeerSecurity {
 public:
  // Reads and checks what the flags name. Errors of Certificates::Open and ClusterSecret::Read;
  // FAILED_PRECONDITION when the certificate is not that of `own`.
  static absl::StatusOr<PeerSecurity> Open(const PeerSecurityFlags& flags, const Identity& own);

  // FAILED_PRECONDITION when a stranger could answer at `address`, or connect to it, without any
  // proof: neither certificates nor a secret are given, and it is no socket in a private folder.
  // Such a folder is made where it is missing. `flag` is what the address was given by.
  absl::Status CheckAddress(const std::string& flag, const std::string& address) const;

  // The proofs that a listener asks for.
  GateRules rules() const { return {.secret = secret_, .name = IdentityUri(own_)}; }
  const std::shared_ptr<const ClusterSecret>& secret() const { return secret_; }
  const TlsFiles& tls() const { return tls_; }

 private:
  PeerSecurity(TlsFiles tls, std::shared_ptr<const ClusterSecret> secret, Identity own)
      : tls_(std::move(tls)), secret_(std::move(secret)), own_(std::move(own)) {}

  TlsFiles tls_;
  std::shared_ptr<const ClusterSecret> secret_;  // null: none
  Identity own_;
};

}  // namespace tutti::transport
