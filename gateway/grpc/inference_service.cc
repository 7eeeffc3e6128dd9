#include "gateway/grpc/inference_service.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "door/grpc/message_parser.h"
#include "gateway/api_error.h"
#include "gateway/grpc/tenant_mark.h"
#include "gateway/limits.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

using door::ReceivedRequest;
using door::UnaryCall;

InferenceService::InferenceService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls)
    : FrontEnd(v1::GenerateRequest::descriptor()->file()->FindServiceByName("Inference")),
      upstream_(upstream),
      forwarder_(forwarder),
      calls_(calls) {
  client::Client* const client = upstream->client();
  Serve("Generate", [this](auto* context) { return BeginGenerate(context); });
  Serve("Tokenize", [this, client](auto* context) {
    return BeginUnary<v1::TokenizeRequest>(context,
                                           [client](const auto& request, const auto& options) {
                                             return client->Tokenize(request, options);
                                           });
  });
  Serve("Detokenize", [this, client](auto* context) {
    return BeginUnary<v1::DetokenizeRequest>(context,
                                             [client](const auto& request, const auto& options) {
                                               return client->Detokenize(request, options);
                                             });
  });
  Serve("GetModel", [this](auto* context) { return BeginGetModel(context); });
}

// The model as the service said it last, a second ago at most. Whatever the request holds: there is
// nothing to ask.
InferenceService::Reactor* InferenceService::BeginGetModel(grpc::CallbackServerContext* context) {
  auto call = std::make_shared<UnaryCall>();
  return calls_->Start(context, call, /*blocks=*/false,
                       [this, call](const auto&, const auto&) -> absl::Status {
                         const auto state = upstream_->model();
                         if (!state->reachable) return absl::UnavailableError(kServiceUnreachable);
                         call->Reply(state->model);
                         return absl::OkStatus();
                       });
}

InferenceService::Reactor* InferenceService::BeginGenerate(grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<door::GenerateStream>();
  return calls_->Start(context, stream, /*blocks=*/false,
                       [this, stream](ReceivedRequest received, const GrpcCaller& caller) {
                         return Generate(std::move(received), caller, stream);
                       });
}

absl::Status InferenceService::Generate(ReceivedRequest received, const GrpcCaller& caller,
                                        const std::shared_ptr<door::GenerateStream>& stream) {
  v1::GenerateRequest request;
  TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &request));
  received.bytes.Clear();
  stream->Identify(request.request_id(), RequestId(), TenantMark(caller.tenant));
  const auto n = static_cast<int32_t>(std::max(request.n(), 1u));
  TUTTI_ASSIGN_OR_RETURN(
      const Forwarder::Cancel cancel,
      forwarder_->Begin("tutti.v1.Inference/Generate", std::move(request), caller, stream));
  // Last: a caller that leaves before there is anything to end must not be missed. The charge is
  // for the request, which our client of the service keeps until the answer's end.
  if (!stream->Attach(n, std::move(received.charge), cancel)) cancel();
  return absl::OkStatus();
}

template <typename Request, typename Ask>
InferenceService::Reactor* InferenceService::BeginUnary(grpc::CallbackServerContext* context,
                                                        Ask ask) {
  auto call = std::make_shared<UnaryCall>();
  return calls_->Start(
      context, call, /*blocks=*/true,
      [call, ask](const ReceivedRequest& received, const GrpcCaller& caller) -> absl::Status {
        Request request;
        TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &request));
        const Duration timeout =
            std::min<Duration>(caller.TimeLeft().value_or(kTokenizeTimeout), kTokenizeTimeout);
        const auto response = ask(request, client::CallOptions{.timeout = timeout});
        if (!response.ok()) return WithoutAddress(response.status());
        call->Reply(*response);
        return absl::OkStatus();
      });
}

}  // namespace tutti::gateway
