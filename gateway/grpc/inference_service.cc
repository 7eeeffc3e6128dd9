#include "gateway/grpc/inference_service.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "coordinator/service/message_parser.h"
#include "gateway/api_error.h"
#include "gateway/limits.h"

namespace tutti::gateway {

namespace {

constexpr char kEnding[] = "this gateway is about to end";

}  // namespace

using coordinator::ReceivedRequest;
using coordinator::UnaryCall;

InferenceService::InferenceService(const DoorRules* rules, Upstream* upstream, Forwarder* forwarder,
                                   coordinator::Door* door)
    : rules_(rules), upstream_(upstream), forwarder_(forwarder), door_(door) {
  Serve("Generate", &InferenceService::BeginGenerate);
  Serve("Tokenize", &InferenceService::BeginTokenize);
  Serve("Detokenize", &InferenceService::BeginDetokenize);
  Serve("GetModel", &InferenceService::BeginGetModel);
}

// As raw bytes, and as if both sides streamed: see coordinator/service/client_call.h.
void InferenceService::Serve(const char* method, BeginCall begin) {
  const auto* service = v1::GenerateRequest::descriptor()->file()->FindServiceByName("Inference");
  const int index = service->FindMethodByName(method)->index();
  const auto handler = [this, begin] {
    return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
        [this, begin](grpc::CallbackServerContext* context) { return (this->*begin)(context); });
  };
  MarkMethodStreamed(index, handler());
  MarkMethodRawCallback(index, handler());
}

int64_t InferenceService::under_way() {
  const MutexLock lock(&mutex_);
  std::erase_if(calls_, [](const auto& call) { return call.expired(); });
  return static_cast<int64_t>(calls_.size());
}

InferenceService::Call::Reactor* InferenceService::Start(grpc::CallbackServerContext* context,
                                                         std::shared_ptr<Call> call, bool blocks,
                                                         Work work) {
  ++begun_;
  {
    const MutexLock lock(&mutex_);
    // Twice as many as are alive, at most: looked at seldom.
    if (calls_.size() == calls_.capacity()) {
      std::erase_if(calls_, [](const auto& other) { return other.expired(); });
      calls_.reserve(2 * calls_.size() + 16);
    }
    calls_.push_back(call);
  }
  auto caller = AdmitCall(*rules_, *context);
  const absl::Status refused =
      draining_ ? absl::UnavailableError(kEnding) : caller.status();
  const auto run = [this, call, work = std::move(work), caller = std::move(caller)] {
    std::optional<ReceivedRequest> received = call->TakeRequest();
    if (!received || call->ended()) return;
    if (draining_) return call->End(absl::UnavailableError(kEnding));
    const auto bytes = static_cast<int64_t>(received->bytes.Length());
    const absl::Status done =
        coordinator::WithinMemory([&] { return work(*std::move(received), *caller); });
    if (absl::IsInvalidArgument(done)) return call->Refuse(done, bytes, clock_.Now());
    if (!done.ok()) call->End(done);
  };
  auto* const reactor = call->Start(context, door_, [this, call, blocks, run] {
    const auto inline_max = static_cast<int64_t>(kInlineBodyBytesMax);
    if (!blocks && call->request_bytes() <= inline_max) return run();
    if (!upstream_->Run(LaneOf(static_cast<size_t>(call->request_bytes())), run)) {
      call->End(coordinator::Overloaded("too many requests wait to be read"));
    }
  });
  if (!refused.ok()) call->End(refused);
  return reactor;
}

InferenceService::Call::Reactor* InferenceService::BeginGenerate(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<coordinator::GenerateStream>();
  return Start(context, stream, /*blocks=*/false,
               [this, stream](ReceivedRequest received, const GrpcCaller& caller) {
                 return Generate(std::move(received), caller, stream);
               });
}

absl::Status InferenceService::Generate(
    ReceivedRequest received, const GrpcCaller& caller,
    const std::shared_ptr<coordinator::GenerateStream>& stream) {
  v1::GenerateRequest request;
  TUTTI_RETURN_IF_ERROR(coordinator::ParseMessage(received.bytes, &request));
  received.bytes.Clear();
  stream->Identify(request.request_id(), RequestId(), {});
  const auto n = static_cast<int32_t>(std::max(request.n(), 1u));
  TUTTI_ASSIGN_OR_RETURN(const Forwarder::Cancel cancel,
                         forwarder_->Begin(std::move(request), caller, stream));
  // Last: a caller that leaves before there is anything to end must not be missed. The charge is
  // for the request, which our client of the service keeps until the answer's end.
  if (!stream->Attach(n, std::move(received.charge), cancel)) cancel();
  return absl::OkStatus();
}

template <typename Request, typename Ask>
InferenceService::Call::Reactor* InferenceService::BeginUnary(grpc::CallbackServerContext* context,
                                                              Ask ask) {
  auto call = std::make_shared<UnaryCall>();
  return Start(
      context, call, /*blocks=*/true,
      [call, ask](const ReceivedRequest& received, const GrpcCaller& caller) -> absl::Status {
        Request request;
        TUTTI_RETURN_IF_ERROR(coordinator::ParseMessage(received.bytes, &request));
        const Duration timeout =
            std::min<Duration>(caller.TimeLeft().value_or(kTokenizeTimeout), kTokenizeTimeout);
        const auto response = ask(request, client::CallOptions{.timeout = timeout});
        if (!response.ok()) return WithoutAddress(response.status());
        call->Reply(*response);
        return absl::OkStatus();
      });
}

InferenceService::Call::Reactor* InferenceService::BeginTokenize(
    grpc::CallbackServerContext* context) {
  return BeginUnary<v1::TokenizeRequest>(
      context, [client = upstream_->client()](const auto& request, const auto& options) {
        return client->Tokenize(request, options);
      });
}

InferenceService::Call::Reactor* InferenceService::BeginDetokenize(
    grpc::CallbackServerContext* context) {
  return BeginUnary<v1::DetokenizeRequest>(
      context, [client = upstream_->client()](const auto& request, const auto& options) {
        return client->Detokenize(request, options);
      });
}

InferenceService::Call::Reactor* InferenceService::BeginGetModel(
    grpc::CallbackServerContext* context) {
  auto call = std::make_shared<UnaryCall>();
  return Start(context, call, /*blocks=*/false,
               [this, call](const auto&, const auto&) { return GetModel(call.get()); });
}

// As the service said it last, a second ago at most.
absl::Status InferenceService::GetModel(UnaryCall* call) const {
  const auto state = upstream_->model();
  if (!state->reachable) return absl::UnavailableError(kServiceUnreachable);
  call->Reply(state->model);
  return absl::OkStatus();
}

}  // namespace tutti::gateway
