#include "transport/peer_security.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/private_folder.h"

namespace tutti::transport {

absl::StatusOr<PeerSecurity> PeerSecurity::Open(const PeerSecurityFlags& flags,
                                                const Identity& own) {
  if (flags.tls.any()) {
    TUTTI_ASSIGN_OR_RETURN(const auto certificates,
                           Certificates::Open(flags.tls, /*needs_authority=*/true));
    TUTTI_RETURN_IF_ERROR(certificates->CheckUri(IdentityUri(own)));
  }
  std::shared_ptr<const ClusterSecret> secret;
  if (!flags.secret_file.empty()) {
    TUTTI_ASSIGN_OR_RETURN(secret, ClusterSecret::Read(flags.secret_file));
  }
  return PeerSecurity(flags.tls, std::move(secret), own);
}

absl::Status PeerSecurity::CheckAddress(const std::string& flag, const std::string& address) const {
  const std::string folder = SocketFolder(address);
  if (tls_.any() || secret_ != nullptr) return absl::OkStatus();
  std::string why = "any process of this machine could pose as a worker there";
  if (!folder.empty()) {
    const absl::Status is_private = MakePrivateFolder(folder);
    if (is_private.ok()) return absl::OkStatus();
    why = std::string(is_private.message());
  }
  return absl::FailedPreconditionError(absl::StrCat(
      flag, " ", address, ": ", why, ". Give --cluster-secret-file FILE (", kSecretRemedy,
      "), or certificates, or unix:/FOLDER/NAME with a folder of mode 0700"));
}

}  // namespace tutti::transport
