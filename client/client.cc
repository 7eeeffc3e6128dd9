#include "client/client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "client/call_scope.h"
#include "client/endpoints.h"
#include "client/first_waits.h"
#include "client/request_size.h"
#include "transport/grpc/grpc_runtime.h"
#include "transport/private_folder.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti::client {

struct Client::AdminStub {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Admin::Stub> stub;

  // Operators have certificates, or enter the socket.
  void Authorize(grpc::ClientContext*) const {}
  absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) const {
    return ToStatusOf(channel.get(), status, context, address);
  }
};

Client::Client(ClientOptions options, std::unique_ptr<Endpoints> endpoints)
    : options_(std::move(options)),
      endpoints_(std::move(endpoints)),
      first_waits_(std::make_unique<FirstWaits>()) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  // The last holder of a channel may be a call of Start, which ends on a thread of gRPC's.
  TUTTI_RETURN_IF_ERROR(transport::KeepGrpcRunning());
  TUTTI_ASSIGN_OR_RETURN(auto endpoints, Endpoints::Create(options));
  return std::unique_ptr<Client>(new Client(options, std::move(endpoints)));
}

absl::StatusOr<const Client::AdminStub*> Client::Admin() {
  if (admin_ != nullptr) return admin_.get();
  auto admin = std::make_unique<AdminStub>();
  admin->address = options_.admin;
  if (admin->address.empty()) {
    auto found = transport::FindOperatorAddress(endpoints_->preferred().address);
    if (!found.ok()) {
      return absl::UnavailableError(absl::StrCat(
          found.status().message(),
          "; start one (tutti up --model DIR), or name another address (--address), or the "
          "operator's port of a service elsewhere (--admin)"));
    }
    admin->address = *std::move(found);
  }
  TUTTI_RETURN_IF_ERROR(Annotate(CheckAddress(admin->address, AddressUse::kDial),
                                 "the address of the operator's port"));
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

namespace {

// One request, one response. `target` is an Endpoint or the AdminStub.
template <typename Response, typename Target, typename Stub, typename Request>
absl::StatusOr<Response> CallOnce(const Target& target,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options.timeout, &context);
  target.Authorize(&context);
  const CancelScope cancel(options.cancel, &context);
  Response response;
  const grpc::Status status = ((*target.stub).*method)(&context, request, &response);
  TUTTI_RETURN_IF_ERROR(target.ToStatus(status, context));
  return response;
}

// The same of whichever address answers: one that cannot be reached, or does not serve, is left for
// the next, and each is asked once.
template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> CallAny(Endpoints* endpoints, Method method, const Request& request,
                                 const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckRequestSize(request));
  for (size_t left = endpoints->size();; --left) {
    const Endpoint& endpoint = endpoints->preferred();
    auto response = CallOnce<Response>(endpoint, method, request, options);
    if (!absl::IsUnavailable(response.status()) || left <= 1) return response;
    endpoints->OnFailed(endpoint);
  }
}

}  // namespace

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) {
  return CallAny<v1::TokenizeResponse>(endpoints_.get(), &v1::Inference::Stub::Tokenize, request,
                                       options);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          const CallOptions& options) {
  return CallAny<v1::DetokenizeResponse>(endpoints_.get(), &v1::Inference::Stub::Detokenize,
                                         request, options);
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel(const CallOptions& options) {
  // One that loads answers, too, and is left for another that serves; where none does, the next
  // call begins with one that answered.
  std::optional<v1::GetModelResponse> loads;
  for (size_t left = endpoints_->size();; --left) {
    const Endpoint& endpoint = endpoints_->preferred();
    auto model = CallOnce<v1::GetModelResponse>(endpoint, &v1::Inference::Stub::GetModel,
                                                v1::GetModelRequest(), options);
    if (model.ok() && !model->numerics_class().empty()) return model;
    const bool answers = model.ok();
    if (answers && !loads.has_value()) loads = *std::move(model);
    if (!loads.has_value() && (left <= 1 || !absl::IsUnavailable(model.status()))) return model;
    if (left > 1 || !answers) endpoints_->OnFailed(endpoint);
    if (left <= 1) return *std::move(loads);
  }
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const AdminStub* admin, Admin());
  return CallOnce(*admin, &v1::Admin::Stub::GetStatus, {}, options);
}

absl::StatusOr<v1::LookupPrefixResponse> Client::LookupPrefix(
    const v1::LookupPrefixRequest& request, const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const AdminStub* admin, Admin());
  return CallOnce(*admin, &v1::Admin::Stub::LookupPrefix, request, options);
}

absl::StatusOr<v1::DrainWorkerResponse> Client::DrainWorker(const v1::DrainWorkerRequest& request,
                                                            const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const AdminStub* admin, Admin());
  return CallOnce(*admin, &v1::Admin::Stub::DrainWorker, request, options);
}

}  // namespace tutti::client
