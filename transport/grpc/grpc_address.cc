#include "transport/grpc/grpc_address.h"

#include <arpa/inet.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::transport {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

struct PemTexts {
  std::string certificate, key, authority;
};

bool IsSet(const TlsFiles& tls) {
  return !tls.certificate.empty() || !tls.key.empty() || !tls.authority.empty();
}

absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view what) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS needs certificate, key and authority; no ", what, " is given"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return absl::NotFoundError(absl::StrCat("cannot read the ", what, " file ", path));
  }
  if (!absl::StrContains(text, "-----BEGIN ")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " file ", path, " is no PEM file"));
  }
  return text;
}

absl::StatusOr<PemTexts> ReadPems(const TlsFiles& tls) {
  PemTexts texts;
  TUTTI_ASSIGN_OR_RETURN(texts.certificate, ReadPem(tls.certificate, "certificate"));
  TUTTI_ASSIGN_OR_RETURN(texts.key, ReadPem(tls.key, "key"));
  TUTTI_ASSIGN_OR_RETURN(texts.authority, ReadPem(tls.authority, "authority"));
  return texts;
}

}  // namespace

bool IsLocalAddress(const std::string& address) {
  if (absl::StartsWith(address, kUnixPrefix)) return true;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string host = address.substr(0, colon);
  if (host == "localhost" || host == "[::1]") return true;
  in_addr ipv4;
  return inet_pton(AF_INET, host.c_str(), &ipv4) == 1 && (ntohl(ipv4.s_addr) >> 24) == 127;
}

std::string WithPort(const std::string& address, int port) {
  if (absl::StartsWith(address, kUnixPrefix)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& tls) {
  if (!IsSet(tls)) return grpc::InsecureChannelCredentials();
  TUTTI_ASSIGN_OR_RETURN(PemTexts texts, ReadPems(tls));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = std::move(texts.authority);
  options.pem_private_key = std::move(texts.key);
  options.pem_cert_chain = std::move(texts.certificate);
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const TlsFiles& tls) {
  if (!IsSet(tls)) {
    if (IsLocalAddress(address)) return grpc::InsecureServerCredentials();
    return absl::FailedPreconditionError(
        absl::StrCat("without TLS certificates only loopback and unix addresses are listened on, "
                     "and ",
                     address, " is neither"));
  }
  TUTTI_ASSIGN_OR_RETURN(PemTexts texts, ReadPems(tls));
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = std::move(texts.authority);
  options.pem_key_cert_pairs.push_back({std::move(texts.key), std::move(texts.certificate)});
  return grpc::SslServerCredentials(options);
}

}  // namespace tutti::transport
