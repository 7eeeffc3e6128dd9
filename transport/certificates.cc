#include "transport/certificates.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "spdlog/spdlog.h"

namespace tutti::transport {
namespace {

template <typename T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* object) const { kFree(object); }
};
using OwnedX509 = std::unique_ptr<X509, Freer<X509, X509_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using OwnedBio = std::unique_ptr<BIO, Freer<BIO, BIO_vfree>>;
using OwnedNames = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES, GENERAL_NAMES_free>>;

// A key with a passphrase is refused, never asked for on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

OwnedBio BioOf(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view what) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS needs certificate, key and authority; no ", what, " is given"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the ", what, " file ", path, ": ",
                     errno == 0 ? "it is no regular file" : std::strerror(errno)));
  }
  if (!absl::StrContains(text, "-----BEGIN ")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " file ", path, " is no PEM file"));
  }
  return text;
}

absl::StatusOr<OwnedX509> ParseCertificate(const std::string& text, const std::string& path,
                                           absl::string_view what) {
  OwnedX509 certificate(PEM_read_bio_X509(BioOf(text).get(), nullptr, &NoPassphrase, nullptr));
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(
      absl::StrCat("the ", what, " file ", path, " holds no certificate"));
}

std::string DateText(const ASN1_TIME* time) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::Status CheckDates(const X509& certificate, const std::string& path) {
  const ASN1_TIME* const begin = X509_get0_notBefore(&certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(&certificate);
  const std::string dates =
      absl::StrCat("; it is valid from ", DateText(begin), " to ", DateText(end));
  if (X509_cmp_current_time(end) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate ", path, " has expired", dates));
  }
  if (X509_cmp_current_time(begin) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate ", path, " is not valid yet", dates));
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const X509& certificate, const std::string& key_text, const TlsFiles& files) {
  const OwnedKey key(
      PEM_read_bio_PrivateKey(BioOf(key_text).get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key file ", files.key, " holds no key without a passphrase"));
  }
  if (X509_check_private_key(&certificate, key.get()) == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the key ", files.key, " is not that of the certificate ", files.certificate));
}

std::vector<std::string> UrisOf(X509* certificate) {
  std::vector<std::string> uris;
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const text = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                      static_cast<size_t>(ASN1_STRING_length(text)));
  }
  return uris;
}

absl::StatusOr<std::shared_ptr<const Certificates::Texts>> ReadAll(const TlsFiles& files) {
  auto texts = std::make_shared<Certificates::Texts>();
  TUTTI_ASSIGN_OR_RETURN(texts->certificate, ReadPem(files.certificate, "certificate"));
  TUTTI_ASSIGN_OR_RETURN(texts->key, ReadPem(files.key, "key"));
  TUTTI_ASSIGN_OR_RETURN(const OwnedX509 certificate,
                         ParseCertificate(texts->certificate, files.certificate, "certificate"));
  TUTTI_RETURN_IF_ERROR(CheckKey(*certificate, texts->key, files));
  TUTTI_RETURN_IF_ERROR(CheckDates(*certificate, files.certificate));
  texts->uris = UrisOf(certificate.get());
  if (!files.authority.empty()) {
    TUTTI_ASSIGN_OR_RETURN(texts->authority, ReadPem(files.authority, "authority"));
    TUTTI_RETURN_IF_ERROR(
        ParseCertificate(texts->authority, files.authority, "authority").status());
  }
  return std::shared_ptr<const Certificates::Texts>(std::move(texts));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Certificates>> Certificates::Open(const TlsFiles& files,
                                                                 bool needs_authority) {
  if (needs_authority && files.authority.empty()) return ReadPem("", "authority").status();
  const Stamps stamps = StampsOf(files);
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<const Texts> texts, ReadAll(files));
  return std::shared_ptr<Certificates>(new Certificates(files, stamps, std::move(texts)));
}

Certificates::Stamps Certificates::StampsOf(const TlsFiles& files) {
  Stamps stamps;
  const std::string* const paths[] = {&files.certificate, &files.key, &files.authority};
  for (size_t i = 0; i < stamps.size(); ++i) {
    struct stat found {};
    if (paths[i]->empty() || stat(paths[i]->c_str(), &found) != 0) continue;
    stamps[i] = {static_cast<int64_t>(found.st_ino), found.st_size, found.st_mtim.tv_sec,
                 found.st_mtim.tv_nsec};
  }
  return stamps;
}

std::shared_ptr<const Certificates::Texts> Certificates::Current() {
  const MutexLock lock(&mutex_);
  const Stamps stamps = StampsOf(files_);
  if (stamps == stamps_) return texts_;
  stamps_ = stamps;
  auto texts = ReadAll(files_);
  if (texts.ok()) {
    texts_ = *std::move(texts);
    spdlog::info("read the certificate {} again: it has changed", files_.certificate);
  } else {
    spdlog::warn("going on with the former certificate: {}", std::string(texts.status().message()));
  }
  return texts_;
}

absl::Status Certificates::CheckUri(const std::string& uri) {
  const auto texts = Current();
  for (const std::string& own : texts->uris) {
    if (own == uri) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the certificate ", files_.certificate, " does not have the URI ", uri,
                   " among its subject alternative names; ",
                   texts->uris.empty() ? "it has none"
                                       : absl::StrCat("it has ", absl::StrJoin(texts->uris, ", ")),
                   "; make one that has it with tutti certs issue"));
}

}  // namespace tutti::transport
