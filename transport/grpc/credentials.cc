#include "transport/grpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/grpc_security_constants.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "transport/grpc/grpc_address.h"
#include "transport/grpc/grpc_runtime.h"

namespace tutti::transport {
namespace {

constexpr std::string_view kPathMetadata = ":path";

std::string_view ViewOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

void AddUri(std::string_view uri, Caller* caller) {
  if (std::optional<Identity> identity = ParseIdentity(uri)) {
    caller->roles.Add(identity->role);
    caller->identities.push_back(*std::move(identity));
  }
}

// The roles of a call's caller, from the context that gRPC's core has of it.
RoleSet RolesOf(const grpc_auth_context* context, RoleSet without_certificate) {
  auto pem = grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (grpc_auth_property_iterator_next(&pem) == nullptr) return without_certificate;
  Caller caller;
  auto uris = grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
  while (const grpc_auth_property* uri = grpc_auth_property_iterator_next(&uris)) {
    AddUri({uri->value, uri->value_length}, &caller);
  }
  return caller.roles;
}

// The state that the credentials of one port need for as long as gRPC uses them.
struct PortState {
  std::shared_ptr<Certificates> certificates;  // null: no TLS
  RoleSet without_certificate;
  // The texts that gRPC has. Connections to one listening socket are set up one after the other.
  std::shared_ptr<const Certificates::Texts> given;
};

// Checks a call before a service sees it.
void CheckCallOf(void* state, grpc_auth_context* context, const grpc_metadata* metadata,
                 size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
  const auto* const port = static_cast<const PortState*>(state);
  std::string_view path;
  for (size_t i = 0; i < count; ++i) {
    if (ViewOf(metadata[i].key) == kPathMetadata) path = ViewOf(metadata[i].value);
  }
  const absl::Status allowed = CheckCall(path, RolesOf(context, port->without_certificate));
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(allowed.code()),
       allowed.ok() ? nullptr : std::string(allowed.message()).c_str());
}

void DeletePortState(void* state) { delete static_cast<PortState*>(state); }

// Called by gRPC before each handshake.
grpc_ssl_certificate_config_reload_status FetchCertificates(
    void* state, grpc_ssl_server_certificate_config** config) {
  auto* const port = static_cast<PortState*>(state);
  auto texts = port->certificates->Current();
  if (texts == port->given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {texts->key.c_str(), texts->certificate.c_str()};
  // gRPC wants some authority even where it asks callers for no certificate; ours proves nothing
  // there, because nothing is looked at.
  const std::string& authority = texts->authority.empty() ? texts->certificate : texts->authority;
  *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
  port->given = std::move(texts);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

// gRPC's C++ interface has no certificates that are fetched for each handshake; its C interface
// has.
class PortCredentials final : public grpc::ServerCredentials {
 public:
  PortCredentials(std::shared_ptr<Certificates> certificates, const PortRules& rules)
      : certificates_(std::move(certificates)), rules_(rules) {}

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override {
    CHECK(processor == nullptr) << "calls are checked by the method table";
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    auto* const state = new PortState{certificates_, rules_.without_certificate, nullptr};
    grpc_server_credentials* const credentials = Make(state);
    // From here on the credentials own the state; the server keeps them for as long as it needs.
    grpc_server_credentials_set_auth_metadata_processor(credentials,
                                                        {&CheckCallOf, &DeletePortState, state});
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  grpc_server_credentials* Make(PortState* state) const {
    if (certificates_ == nullptr) return grpc_insecure_server_credentials_create();
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            rules_.certificates_needed ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &FetchCertificates, state));
  }

  const std::shared_ptr<Certificates> certificates_;
  const PortRules rules_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const TlsFiles& tls, const PortRules& rules) {
  TUTTI_RETURN_IF_ERROR(KeepGrpcRunning());
  TUTTI_RETURN_IF_ERROR(CheckRoomForPort());
  std::shared_ptr<Certificates> certificates;
  if (tls.any()) {
    TUTTI_ASSIGN_OR_RETURN(certificates, Certificates::Open(tls, rules.certificates_needed));
  } else if (!IsLocalAddress(address) && !rules.plaintext) {
    return absl::FailedPreconditionError(
        absl::StrCat("without TLS certificates only loopback and unix addresses are listened on, "
                     "and ",
                     address, " is neither"));
  }
  return std::make_shared<PortCredentials>(std::move(certificates), rules);
}

Caller CallerOf(const grpc::AuthContext* context, RoleSet without_certificate) {
  Caller caller;
  if (context == nullptr || context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty()) {
    caller.roles = without_certificate;
    return caller;
  }
  caller.has_certificate = true;
  for (const grpc::string_ref& uri : context->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    AddUri({uri.data(), uri.size()}, &caller);
  }
  return caller;
}

absl::StatusOr<std::shared_ptr<ChannelIdentity>> ChannelIdentity::Open(const TlsFiles& tls) {
  std::shared_ptr<Certificates> certificates;
  if (tls.any()) {
    TUTTI_ASSIGN_OR_RETURN(certificates, Certificates::Open(tls, /*needs_authority=*/true));
  }
  return std::shared_ptr<ChannelIdentity>(new ChannelIdentity(std::move(certificates)));
}

std::shared_ptr<grpc::ChannelCredentials> ChannelIdentity::Current() {
  if (certificates_ == nullptr) return grpc::InsecureChannelCredentials();
  auto texts = certificates_->Current();
  const MutexLock lock(&mutex_);
  if (credentials_ == nullptr || texts != texts_) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = texts->authority;
    options.pem_private_key = texts->key;
    options.pem_cert_chain = texts->certificate;
    credentials_ = grpc::SslCredentials(options);
    texts_ = std::move(texts);
  }
  return credentials_;
}

}  // namespace tutti::transport
