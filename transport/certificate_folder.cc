#include "transport/certificate_folder.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tutti::transport {

absl::StatusOr<TlsFiles> FilesOfFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " is no folder; `tutti certs issue` makes one"));
  }
  const fs::path path(folder);
  if (fs::exists(path / kAuthorityKeyFile, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " is the authority's own folder, whose ", kAuthorityKeyFile,
        " no process should have; give the folder in it that `tutti certs issue` has made"));
  }
  for (const char* const name : {kAuthorityFile, kCertificateFile, kKeyFile}) {
    if (fs::exists(path / name, error)) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, " has no ", name, "; it must have ",
                                                   kAuthorityFile, ", ", kCertificateFile, " and ",
                                                   kKeyFile));
  }
  return TlsFiles{.certificate = path / kCertificateFile,
                  .key = path / kKeyFile,
                  .authority = path / kAuthorityFile};
}

absl::Status FillFromFolder(const std::string& folder, TlsFiles* files) {
  if (folder.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const TlsFiles found, FilesOfFolder(folder));
  // A certificate and its key belong together.
  if (files->certificate.empty() && files->key.empty()) {
    files->certificate = found.certificate;
    files->key = found.key;
  }
  if (files->authority.empty()) files->authority = found.authority;
  return absl::OkStatus();
}

absl::StatusOr<std::string> NameOfCertificate(const TlsFiles& files, Role role) {
  TUTTI_ASSIGN_OR_RETURN(const auto certificates,
                         Certificates::Open(files, /*needs_authority=*/true));
  std::string name;
  for (const std::string& uri : certificates->Current()->uris) {
    const std::optional<Identity> identity = ParseIdentity(uri);
    if (!identity.has_value() || identity->role != role || identity->name == name) continue;
    if (!name.empty()) return "";
    name = identity->name;
  }
  return name;
}

}  // namespace tutti::transport
