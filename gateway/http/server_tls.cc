#include "gateway/http/server_tls.h"

#include <boost/asio/buffer.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tutti::gateway {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

absl::StatusOr<std::unique_ptr<ssl::context>> MakeContext(
    const transport::Certificates::Texts& texts) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  error_code error;
  // Buffers are given back between records: idle connections are many.
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  context->set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  context->use_certificate_chain(boost::asio::buffer(texts.certificate), error);
  if (!error) {
    context->use_private_key(boost::asio::buffer(texts.key), ssl::context::pem, error);
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate and its key cannot be used: ", error.message()));
  }
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Open(const std::string& certificate,
                                                           const std::string& key) {
  if (certificate.empty() != key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key: give both or none");
  }
  if (key.empty()) return nullptr;
  TUTTI_ASSIGN_OR_RETURN(auto certificates,
                         transport::Certificates::Open({certificate, key, ""}, false));
  std::unique_ptr<ServerTls> tls(new ServerTls(std::move(certificates)));
  TUTTI_RETURN_IF_ERROR(Annotate(tls->Take(tls->certificates_->Current()), "--tls-cert"));
  return tls;
}

absl::Status ServerTls::Take(std::shared_ptr<const transport::Certificates::Texts> texts) {
  texts_ = std::move(texts);
  TUTTI_ASSIGN_OR_RETURN(context_, MakeContext(*texts_));
  return absl::OkStatus();
}

ssl::context* ServerTls::Current() {
  auto texts = certificates_->Current();
  if (texts != texts_) {
    if (const absl::Status taken = Take(std::move(texts)); !taken.ok()) {
      spdlog::warn("the former certificate goes on: {}", std::string(taken.message()));
    }
  }
  return context_.get();
}

}  // namespace tutti::gateway
