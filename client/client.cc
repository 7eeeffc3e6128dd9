#include "client/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "client/limits.h"
#include "client/output_order.h"
#include "transport/grpc/grpc_runtime.h"
#include "transport/private_folder.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {

void CancelToken::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  if (on_cancel_) on_cancel_();
}

bool CancelToken::cancelled() const {
  const MutexLock lock(&mutex_);
  return cancelled_;
}

// Ties a token to a call for as long as the call's context lives.
class CancelScope {
 public:
  CancelScope(CancelToken* token, grpc::ClientContext* context) : token_(token) {
    if (token_ == nullptr) return;
    const MutexLock lock(&token_->mutex_);
    token_->on_cancel_ = [context] { context->TryCancel(); };
    if (token_->cancelled_) context->TryCancel();
  }
  ~CancelScope() {
    if (token_ == nullptr) return;
    const MutexLock lock(&token_->mutex_);
    token_->on_cancel_ = nullptr;
  }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  CancelToken* const token_;
};

namespace {

std::optional<Duration> RetryDelay(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("retry-after-ms");
  int64_t ms = 0;
  if (found == metadata.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &ms) ||
      ms < 0 || ms > kRetryDelayMsMax) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(ms);
}

// The status as callers see it. gRPC reports a service that cannot be reached and a service that
// says UNAVAILABLE with the same code; the channel's state tells them apart.
absl::Status ToStatusOf(grpc::Channel* channel, const grpc::Status& status,
                        const grpc::ClientContext& context, const std::string& address) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      channel->GetState(false) != GRPC_CHANNEL_READY) {
    return absl::UnavailableError(absl::StrCat("no connection to a Tutti service at ", address,
                                               ": ", status.error_message()));
  }
  const absl::Status ours(code, status.error_message());
  const auto delay = RetryDelay(context);
  return delay ? WithRetryDelay(ours, *delay) : ours;
}

}  // namespace

struct Client::Stubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Inference::Stub> inference;

  absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context,
                        const std::string& address) const {
    return ToStatusOf(channel.get(), status, context, address);
  }
};

struct Client::AdminStub {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Admin::Stub> stub;
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

Client::Client(ClientOptions options, std::unique_ptr<Stubs> stubs)
    : address_(options.address), options_(std::move(options)), stubs_(std::move(stubs)) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  // The last holder of a channel may be a call of Start, which ends on a thread of gRPC's.
  transport::KeepGrpcRunning();
  TUTTI_RETURN_IF_ERROR(CheckAddress(options.address));
  TUTTI_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options));
  auto stubs = std::make_unique<Stubs>();
  stubs->channel = MakeChannel(options.address, credentials);
  stubs->inference = v1::Inference::NewStub(stubs->channel);
  return std::unique_ptr<Client>(new Client(options, std::move(stubs)));
}

absl::StatusOr<const Client::AdminStub*> Client::Admin() {
  if (admin_ != nullptr) return admin_.get();
  auto admin = std::make_unique<AdminStub>();
  admin->address = options_.admin;
  if (admin->address.empty()) {
    auto found = transport::FindOperatorAddress(address_);
    if (!found.ok()) {
      return absl::UnavailableError(absl::StrCat(
          found.status().message(), "; of a service elsewhere name the operator's port (--admin)"));
    }
    admin->address = *std::move(found);
  }
  TUTTI_RETURN_IF_ERROR(CheckAddress(admin->address));
  // A socket needs no certificate, whatever the public port wants.
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!absl::StartsWith(admin->address, "unix:")) {
    TUTTI_ASSIGN_OR_RETURN(credentials, MakeCredentials(options_));
  }
  admin->channel = MakeChannel(admin->address, credentials);
  admin->stub = v1::Admin::NewStub(admin->channel);
  admin_ = std::move(admin);
  return admin_.get();
}

absl::StatusOr<std::vector<v1::Finish>> Client::Generate(const v1::GenerateRequest& request,
                                                         const CallOptions& options,
                                                         const OnMessage& on_message) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  auto reader = stubs_->inference->Generate(&context, request);

  absl::Status broken;
  OutputOrder order(std::max(request.n(), 1u));
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    broken = order.Check(message);
    if (broken.ok()) broken = on_message(message);
    if (!broken.ok()) {
      context.TryCancel();
      break;
    }
  }
  // Finish waits for the stream's end, so the messages still under way have to be read first.
  while (!broken.ok() && reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  if (!broken.ok()) return broken;
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, context, address_));
  TUTTI_RETURN_IF_ERROR(order.CheckEnd());
  return order.ReleaseFinishes();
}

// Lives until gRPC is done with it and the caller has let go of its GenerateCall.
class Client::CallReactor : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  CallReactor(const Client* client, v1::GenerateRequest request, GenerateObserver* observer)
      : client_(client),
        observer_(observer),
        request_(std::move(request)),
        order_(std::max(request_.n(), 1u)) {}

  // `self` keeps the reactor alive until OnDone.
  void Begin(std::optional<Duration> timeout, std::shared_ptr<CallReactor> self) {
    self_ = std::move(self);
    SetDeadline({.timeout = timeout}, &context_);
    client_->stubs_->inference->async()->Generate(&context_, &request_, this);
    StartRead(&message_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (broken_.ok()) broken_ = order_.Check(message_);
    if (broken_.ok()) {
      observer_->OnMessage(message_);
    } else {
      context_.TryCancel();
    }
    StartRead(&message_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<CallReactor> self = std::move(self_);
    absl::Status end = client_->stubs_->ToStatus(status, context_, client_->address_);
    if (end.ok()) end = order_.CheckEnd();
    observer_->OnEnd(broken_.ok() ? end : broken_);
  }

 private:
  const Client* const client_;
  GenerateObserver* const observer_;
  const v1::GenerateRequest request_;
  grpc::ClientContext context_;
  v1::GenerateResponse message_;
  OutputOrder order_;
  absl::Status broken_;
  std::shared_ptr<CallReactor> self_;
};

std::unique_ptr<GenerateCall> Client::Start(v1::GenerateRequest request,
                                            std::optional<Duration> timeout,
                                            GenerateObserver* observer) {
  class Handle : public GenerateCall {
   public:
    explicit Handle(std::shared_ptr<CallReactor> reactor) : reactor_(std::move(reactor)) {}
    void Cancel() override { reactor_->Cancel(); }

   private:
    const std::shared_ptr<CallReactor> reactor_;
  };
  auto reactor = std::make_shared<CallReactor>(this, std::move(request), observer);
  reactor->Begin(timeout, reactor);
  return std::make_unique<Handle>(std::move(reactor));
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::TokenizeResponse response;
  const grpc::Status status = stubs_->inference->Tokenize(&context, request, &response);
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, context, address_));
  return response;
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel(const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::GetModelResponse response;
  const grpc::Status status =
      stubs_->inference->GetModel(&context, v1::GetModelRequest(), &response);
  TUTTI_RETURN_IF_ERROR(stubs_->ToStatus(status, context, address_));
  return response;
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const AdminStub* admin, Admin());
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::GetStatusResponse response;
  const grpc::Status status = admin->stub->GetStatus(&context, v1::GetStatusRequest(), &response);
  TUTTI_RETURN_IF_ERROR(ToStatusOf(admin->channel.get(), status, context, admin->address));
  return response;
}

absl::StatusOr<v1::LookupPrefixResponse> Client::LookupPrefix(
    const v1::LookupPrefixRequest& request, const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const AdminStub* admin, Admin());
  grpc::ClientContext context;
  SetDeadline(options, &context);
  const CancelScope cancel(options.cancel, &context);
  v1::LookupPrefixResponse response;
  const grpc::Status status = admin->stub->LookupPrefix(&context, request, &response);
  TUTTI_RETURN_IF_ERROR(ToStatusOf(admin->channel.get(), status, context, admin->address));
  return response;
}

}  // namespace tutti::client
