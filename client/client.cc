#include "client/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/limits.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti {

void CancelToken::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (on_cancel_) on_cancel_();
}

bool CancelToken::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

// Ties a token to a call for as long as the call's context lives.
class CancelScope {
 public:
  CancelScope(CancelToken* token, grpc::ClientContext* context) : token_(token) {
    if (token_ == nullptr) return;
    const std::lock_guard lock(token_->mutex_);
    token_->on_cancel_ = [context] { context->TryCancel(); };
    if (token_->cancelled_) context->TryCancel();
  }
  ~CancelScope() {
    if (token_ == nullptr) return;
    const std::lock_guard lock(token_->mutex_);
    token_->on_cancel_ = nullptr;
  }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  CancelToken* const token_;
};

struct Client::Stubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Inference::Stub> inference;
  std::unique_ptr<v1::Admin::Stub> admin;

  // The status as callers see it. gRPC reports a service that cannot be reached and a service that
  // says UNAVAILABLE with the same code; the channel's state tells them apart.
  absl::Status ToStatus(const grpc::Status& status, const std::string& address) const {
    if (status.ok()) return absl::OkStatus();
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
        channel->GetState(false) != GRPC_CHANNEL_READY) {
      return absl::UnavailableError(absl::StrCat("no connection to a Tutti service at ", address,
                                                 ": ", status.error_message()));
    }
    return absl::Status(code, status.error_message());
  }
};

namespace {

void SetDeadline(const CallOptions& options, grpc::ClientContext* context) {
  if (options.timeout) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::microseconds>(*options.timeout));
  }
}

absl::Status CheckAddress(const std::string& address) {
  const bool printable =
      std::all_of(address.begin(), address.end(), [](char c) { return absl::ascii_isgraph(c); });
  if (address.empty() || !printable) {
    return absl::InvalidArgumentError("the address is empty or has spaces in it");
  }
  const bool is_path = absl::StartsWith(address, "unix:");
  const size_t colon = address.rfind(':');
  if (!is_path && (colon == std::string::npos || colon + 1 == address.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the address \"", address,
                                                   "\" has no port; write for example ", address,
                                                   address.back() == ':' ? "" : ":", "50051"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string pem(std::istreambuf_iterator<char>(file), {});
  if (!file || pem.empty()) {
    return absl::NotFoundError(absl::StrCat("cannot read the PEM file ", path));
  }
  return pem;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ClientOptions& options) {
  const bool has_certificate = !options.tls_certificate.empty();
  if (has_certificate != !options.tls_key.empty() ||
      (has_certificate && options.tls_authority.empty())) {
    return absl::InvalidArgumentError(
        "TLS needs the authority alone, or authority, certificate and key");
  }
  if (options.tls_authority.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  TUTTI_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem(options.tls_authority));
  TUTTI_ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadPem(options.tls_certificate));
  TUTTI_ASSIGN_OR_RETURN(ssl.pem_private_key, ReadPem(options.tls_key));
  return grpc::SslCredentials(ssl);
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kClientMessageBytesMax);
  arguments.SetMaxSendMessageSize(kClientMessageBytesMax);
  // How long one attempt to connect may take, and how soon the next follows.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A service whose machine vanished says nothing at all: pings tell, during calls only.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Our services are addressed directly. A proxy of the environment, meant for the web, would be
  // asked for 127.0.0.1.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

Client::Client(std::string address, std::unique_ptr<Stubs> stubs)
    : address_(std::move(address)), stubs_(std::move(stubs)) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckAddress(options.address));
  TUTTI_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options));
  auto stubs = std::make_unique<Stubs>();
  stubs->channel = MakeChannel(options.address, credentials);
  stubs->inference = v1::Inference::NewStub(stubs->channel);
  stubs->admin = v1::Admin::NewStub(stubs->channel);
  return std::unique_ptr<Client>(new Client(options.address, std::move(stubs)));
}

absl::StatusOr<v1::Finish> Client::Generate(const v1::GenerateRequest& request,
                                            const CallOptions& options,
                                            const OnMessage& on_message) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  auto reader = stubs_->inference->Generate(&context, request);

  absl::Status broken;
  std::optional<v1::Finish> finish;
  uint32_t tokens_seen = 0;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    if (finish) {
      broken = absl::InternalError("the service sent a message after the one with `finish`");
    } else if (message.tokens_size() > 0 && message.index() != tokens_seen) {
      broken = absl::InternalError(absl::StrCat("the service sent output token ", message.index(),
                                                " where token ", tokens_seen, " was due"));
    } else {
      tokens_seen += static_cast<uint32_t>(message.tokens_size());
      if (message.has_finish()) finish = message.finish();
      broken = on_message(message);
    }
    if (!broken.ok()) {
      context.TryCancel();
      break;
    }
  }
  // Finish waits for the stream's end, so what is still on its way has to be read first.
  while (!broken.ok() && reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  if (!broken.ok()) return broken;
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, address_));
  if (!finish) return absl::InternalError("the service ended the stream without `finish`");
  return *std::move(finish);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::TokenizeResponse response;
  const grpc::Status status = stubs_->inference->Tokenize(&context, request, &response);
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, address_));
  return response;
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel(const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::GetModelResponse response;
  const grpc::Status status =
      stubs_->inference->GetModel(&context, v1::GetModelRequest(), &response);
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, address_));
  return response;
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::GetStatusResponse response;
  const grpc::Status status = stubs_->admin->GetStatus(&context, v1::GetStatusRequest(), &response);
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, address_));
  return response;
}

}  // namespace tutti
