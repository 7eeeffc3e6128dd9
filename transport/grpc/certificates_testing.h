// Certificates for tests, made on the spot so that no key lies in the repository.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "transport/grpc/grpc_link.h"

namespace tutti::transport {

// When a certificate is valid, in seconds from now.
struct Validity {
  long from = -3600;
  long to = 3600;
};

// An authority that signs certificates into a directory of the test's.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name) : name_(name), key_(MakeKey()) {
    certificate_.reset(Sign(name_, "", key_.get()));
    Write(AuthorityPath(), [this](FILE* file) { PEM_write_X509(file, certificate_.get()); });
  }

  // Files of a process called `name` that can be reached as `host`, signed by this authority. The
  // certificate is that of a worker of this name unless `uri` says another ("none": no URI).
  TlsFiles Issue(const std::string& name, const std::string& host, const std::string& uri = "",
                 Validity validity = {}) {
    const auto key = MakeKey();
    std::string names = host;
    if (uri != "none") names += ",URI:" + (uri.empty() ? "tutti://worker/" + name : uri);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        Sign(name, names, key.get(), validity), &X509_free);
    const TlsFiles files{Path(name + ".crt"), Path(name + ".key"), AuthorityPath()};
    Write(files.certificate, [&](FILE* file) { PEM_write_X509(file, certificate.get()); });
    Write(files.key, [&](FILE* file) {
      PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return files;
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

  static Key MakeKey() { return Key(EVP_EC_gen("P-256"), &EVP_PKEY_free); }

  std::string Path(const std::string& file) const {
    return testing::TempDir() + "tutti-tls-" + std::to_string(getpid()) + "-" + name_ + "-" + file;
  }
  std::string AuthorityPath() const { return Path("authority.crt"); }

  template <typename Writer>
  static void Write(const std::string& path, const Writer& writer) {
    FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr) << path;
    writer(file);
    std::fclose(file);
  }

  // A certificate for `host`, or, when empty, the authority's own.
  X509* Sign(const std::string& name, const std::string& host, EVP_PKEY* key,
             Validity validity = {}) const {
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1 + static_cast<long>(host.size()));
    X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), validity.to);
    X509_set_pubkey(certificate, key);
    SetName(X509_get_subject_name(certificate), name);
    SetName(X509_get_issuer_name(certificate), name_);
    if (host.empty()) {
      AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    } else {
      AddExtension(certificate, NID_subject_alt_name, host);
    }
    X509_sign(certificate, key_.get(), EVP_sha256());
    return certificate;
  }

  static void SetName(X509_NAME* to, const std::string& name) {
    X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  }

  static void AddExtension(X509* certificate, int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  const std::string name_;
  const Key key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_{nullptr, &X509_free};
};

}  // namespace tutti::transport
