#include "client/certificate_maker.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/ip_network.h"
#include "base/plain_name.h"
#include "client/limits.h"
#include "transport/announced_address.h"
#include "transport/certificate_folder.h"

namespace tutti::client {
namespace {

namespace fs = std::filesystem;

template <typename T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* object) const { kFree(object); }
};
using OwnedX509 = std::unique_ptr<X509, Freer<X509, X509_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using OwnedBio = std::unique_ptr<BIO, Freer<BIO, BIO_vfree>>;
using OwnedExtension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION, X509_EXTENSION_free>>;
using OwnedNames = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES, GENERAL_NAMES_free>>;

struct Signed {
  OwnedX509 certificate;
  OwnedKey key;
};

// The authority; null members while it signs itself.
struct Signer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};

absl::Status OpenSslFailed(absl::string_view what) {
  char text[256] = {};
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", what, ": ", text));
}

absl::Status CannotMake(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot make ", path, ": ", std::strerror(errno),
                   errno == ENOENT ? "; make the folder around it first" : ""));
}

// Its own mode, whatever the umask says: keys are for their owner.
absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return CannotMake(path);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fchmod(fd, mode) == 0 && fsync(fd) == 0;
  const absl::Status status = written ? absl::OkStatus() : CannotMake(path);
  close(fd);
  return status;
}

template <typename Writer>
absl::StatusOr<std::string> PemOf(absl::string_view what, const Writer& writer) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || writer(bio.get()) != 1) return OpenSslFailed(what);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::string> PemOfCertificate(X509* certificate) {
  return PemOf("write a certificate",
               [&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

absl::StatusOr<std::string> PemOfKey(EVP_PKEY* key) {
  return PemOf("write a key", [&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

bool AddExtension(const Signer& signer, X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, signer.certificate == nullptr ? certificate : signer.certificate,
                 certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A name of its own for each, so that no two are taken for one another.
bool SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // a number above 0
  BIGNUM* const number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

// The common name has at most 64 bytes; nothing is decided by it.
bool SetCommonName(X509* certificate, const std::string& name) {
  const std::string shown = name.substr(0, 64);
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(shown.c_str()), -1, -1,
                                    0) == 1;
}

struct Extension {
  int kind;
  std::string value;
};

absl::StatusOr<Signed> Sign(const Signer& signer, const std::string& name, int days,
                            const std::vector<Extension>& extensions) {
  Signed made = {.certificate = OwnedX509(X509_new()), .key = OwnedKey(EVP_EC_gen("P-256"))};
  X509* const certificate = made.certificate.get();
  if (certificate == nullptr || made.key == nullptr) return OpenSslFailed("make a key");
  X509* const issuer = signer.certificate == nullptr ? certificate : signer.certificate;
  bool ok = X509_set_version(certificate, 2) == 1 && SetSerial(certificate) &&
            SetCommonName(certificate, name) &&
            X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
            // Clocks of other machines may be behind.
            X509_gmtime_adj(X509_getm_notBefore(certificate), -kClockSkewS) != nullptr &&
            X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, nullptr) != nullptr &&
            X509_set_pubkey(certificate, made.key.get()) == 1;
  for (const Extension& one : extensions) {
    ok = ok && AddExtension(signer, certificate, one.kind, one.value);
  }
  EVP_PKEY* const key = signer.key == nullptr ? made.key.get() : signer.key;
  if (!ok || X509_sign(certificate, key, EVP_sha256()) == 0) {
    return OpenSslFailed("make a certificate");
  }
  return made;
}

absl::Status CheckDays(int days) {
  if (days >= 1 && days <= kCertificateDaysMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a certificate is valid for 1 to ", kCertificateDaysMax, " days"));
}

// Nothing of what is in it can be read as another extension: names and addresses have no commas.
absl::StatusOr<std::string> NamesOf(const CertificateRequest& request) {
  std::vector<std::string> names;
  for (const transport::Role role : request.roles) {
    names.push_back("URI:" + transport::IdentityUri({role, request.name}));
  }
  // Announced addresses are proved by the worker's name, so every certificate has it.
  names.push_back("DNS:" + request.name);
  for (const std::string& host : request.hosts) {
    const std::string plain = host.starts_with("*.") ? host.substr(2) : host;
    if (const auto ip = IpAddress::Parse(host)) {
      names.push_back("IP:" + ip->ToString());
    } else if (transport::IsHostName(plain)) {
      names.push_back("DNS:" + host);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--host \"", absl::CHexEscape(host.substr(0, 64)),
                       "\" is neither a host's name nor an IP address; write it without a port"));
    }
  }
  return absl::StrJoin(names, ",");
}

absl::StatusOr<OwnedBio> OpenPem(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  OwnedBio bio(BIO_new(BIO_s_mem()));
  if (text.empty() || BIO_write(bio.get(), text.data(), static_cast<int>(text.size())) <= 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path.string()));
  }
  return bio;
}

absl::StatusOr<OwnedX509> ReadCertificate(const fs::path& path) {
  TUTTI_ASSIGN_OR_RETURN(const OwnedBio bio, OpenPem(path));
  OwnedX509 certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(absl::StrCat(path.string(), " holds no certificate"));
}

absl::StatusOr<Signed> ReadAuthority(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / transport::kAuthorityKeyFile, error)) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " has no ", transport::kAuthorityKeyFile,
                     "; make an authority with: tutti certs init ", folder.string()));
  }
  Signed authority;
  TUTTI_ASSIGN_OR_RETURN(authority.certificate,
                         ReadCertificate(folder / transport::kAuthorityFile));
  TUTTI_ASSIGN_OR_RETURN(const OwnedBio bio, OpenPem(folder / transport::kAuthorityKeyFile));
  authority.key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (authority.key == nullptr ||
      X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    return absl::FailedPreconditionError(absl::StrCat("the ", transport::kAuthorityKeyFile, " in ",
                                                      folder.string(), " is not that of its ",
                                                      transport::kAuthorityFile));
  }
  return authority;
}

struct NewFile {
  std::string name;
  std::string text;
  mode_t mode;
};

// A folder that appears with all its files, or not at all.
absl::Status MakeFolder(const fs::path& folder, const std::vector<NewFile>& files) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    return absl::AlreadyExistsError(absl::StrCat(
        folder.string(), " is there already; remove it first, or choose another name"));
  }
  std::string aside = folder.string() + ".XXXXXX";
  if (mkdtemp(aside.data()) == nullptr) return CannotMake(folder);  // mode 0700
  absl::Status status;
  for (const NewFile& file : files) {
    if (status.ok()) status = WriteNew(aside + "/" + file.name, file.text, file.mode);
  }
  if (status.ok() && std::rename(aside.c_str(), folder.c_str()) != 0) status = CannotMake(folder);
  if (!status.ok()) fs::remove_all(aside, error);
  return status;
}

// "certs/" is certs.
fs::path FolderOf(const std::string& text) {
  const fs::path path(text);
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

absl::Status InitAuthority(const std::string& folder, int days) {
  TUTTI_RETURN_IF_ERROR(CheckDays(days));
  TUTTI_ASSIGN_OR_RETURN(const Signed authority,
                         Sign({}, "tutti authority", days,
                              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                               {NID_key_usage, "critical,keyCertSign,cRLSign"},
                               {NID_subject_key_identifier, "hash"}}));
  TUTTI_ASSIGN_OR_RETURN(const std::string certificate,
                         PemOfCertificate(authority.certificate.get()));
  TUTTI_ASSIGN_OR_RETURN(const std::string key, PemOfKey(authority.key.get()));
  return MakeFolder(FolderOf(folder), {{transport::kAuthorityFile, certificate, 0644},
                                       {transport::kAuthorityKeyFile, key, 0600}});
}

absl::StatusOr<std::string> IssueCertificate(const std::string& authority,
                                             const CertificateRequest& request) {
  if (!IsPlainName(request.name) || request.name.front() == '.') {
    return absl::InvalidArgumentError(
        absl::StrCat("the name \"", absl::CHexEscape(request.name.substr(0, 64)),
                     "\" does not match [A-Za-z0-9._-]{1,128}, or begins with a dot"));
  }
  TUTTI_RETURN_IF_ERROR(CheckDays(request.days));
  TUTTI_ASSIGN_OR_RETURN(const std::string names, NamesOf(request));
  const fs::path folder = FolderOf(authority);
  TUTTI_ASSIGN_OR_RETURN(const Signed signer, ReadAuthority(folder));
  TUTTI_ASSIGN_OR_RETURN(const Signed made, Sign({signer.certificate.get(), signer.key.get()},
                                                 request.name, request.days,
                                                 {{NID_basic_constraints, "critical,CA:FALSE"},
                                                  {NID_key_usage, "critical,digitalSignature"},
                                                  {NID_ext_key_usage, "serverAuth,clientAuth"},
                                                  {NID_subject_key_identifier, "hash"},
                                                  {NID_authority_key_identifier, "keyid"},
                                                  {NID_subject_alt_name, names}}));
  TUTTI_ASSIGN_OR_RETURN(const std::string certificate, PemOfCertificate(made.certificate.get()));
  TUTTI_ASSIGN_OR_RETURN(const std::string key, PemOfKey(made.key.get()));
  TUTTI_ASSIGN_OR_RETURN(const std::string trusted, PemOfCertificate(signer.certificate.get()));
  TUTTI_RETURN_IF_ERROR(
      MakeFolder(folder / request.name, {{transport::kAuthorityFile, trusted, 0644},
                                         {transport::kCertificateFile, certificate, 0644},
                                         {transport::kKeyFile, key, 0600}}));
  return (folder / request.name).string();
}

absl::StatusOr<std::string> DescribeCertificate(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const OwnedX509 certificate, ReadCertificate(path));
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    GENERAL_NAME_print(bio.get(), sk_GENERAL_NAME_value(names.get(), i));
    BIO_puts(bio.get(), ", ");
  }
  BIO_puts(bio.get(), "until ");
  ASN1_TIME_print(bio.get(), X509_get0_notAfter(certificate.get()));
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace tutti::client
