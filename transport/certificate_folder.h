// A folder with the TLS files of one process, by names that everybody gives them: those of a
// Kubernetes secret of type kubernetes.io/tls, which `tutti certs issue` writes too.
//
// Thread: any.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/certificates.h"
#include "transport/roles.h"

namespace tutti::transport {

inline constexpr char kAuthorityFile[] = "ca.crt";
inline constexpr char kCertificateFile[] = "tls.crt";
inline constexpr char kKeyFile[] = "tls.key";
// The key of the authority alone: it lies in no other folder.
inline constexpr char kAuthorityKeyFile[] = "ca.key";

// INVALID_ARGUMENT when the folder lacks one of the three, or is the authority's own. Their
// contents are not looked at.
absl::StatusOr<TlsFiles> FilesOfFolder(const std::string& folder);

// Sets what `files` leaves open; no folder: nothing.
absl::Status FillFromFolder(const std::string& folder, TlsFiles* files);

// The name under which these prove `role`; empty where they prove none, or several. Errors of
// Certificates::Open.
absl::StatusOr<std::string> NameOfCertificate(const TlsFiles& files, Role role);

}  // namespace tutti::transport
