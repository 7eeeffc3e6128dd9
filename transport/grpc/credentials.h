// TLS files as gRPC's credentials: certificates are read again when their files change, and every
// call of a port is checked against the method table (transport/roles.h) before a service sees it.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/certificates.h"
#include "transport/roles.h"

namespace tutti::transport {

// The callers that may use a port.
struct PortRules {
  // The roles of a caller without a certificate: of every caller where there is no TLS.
  RoleSet without_certificate;
  // With TLS: callers must show a certificate that tls.authority has signed.
  bool certificates_needed = true;
  // Without TLS addresses that others reach are listened on, too: something else keeps strangers
  // out and encrypts.
  bool plaintext = false;
};

// Credentials for a server that listens on `address`, whose connections may also come from an
// acceptor of ours. FAILED_PRECONDITION when there is no TLS, the address is neither loopback nor
// unix, and the rules do not say plaintext; errors of Certificates::Open.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const TlsFiles& tls, const PortRules& rules);

// The caller behind a call of such a server. `context` may be null.
Caller CallerOf(const grpc::AuthContext* context, RoleSet without_certificate);

// Credentials for channels.  Thread: any.
class ChannelIdentity {
 public:
  // No TLS where `tls` is empty. Errors of Certificates::Open.
  static absl::StatusOr<std::shared_ptr<ChannelIdentity>> Open(const TlsFiles& tls);

  // Credentials for a new channel, with the files as they are now.
  std::shared_ptr<grpc::ChannelCredentials> Current();
  bool is_secure() const { return certificates_ != nullptr; }

 private:
  explicit ChannelIdentity(std::shared_ptr<Certificates> certificates)
      : certificates_(std::move(certificates)) {}

  const std::shared_ptr<Certificates> certificates_;  // null: no TLS
  Mutex mutex_;
  std::shared_ptr<const Certificates::Texts> texts_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::ChannelCredentials> credentials_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::transport
