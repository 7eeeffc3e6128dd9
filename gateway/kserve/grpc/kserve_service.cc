#include "gateway/kserve/grpc/kserve_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/grpc/message_parser.h"
#include "gateway/api_error.h"
#include "gateway/kserve/model_facts.h"
#include "gateway/limits.h"
#include "gateway/model_names.h"

namespace tutti::gateway {
namespace {

// The first name of the model, where it is asked for by one of its others.
const std::string& NameOf(const std::string& asked, const ModelState& state) {
  return IsServedUnder(state.model, asked) ? state.model.name() : asked;
}

// A gateway loads no models, and shares no memory with anybody.
constexpr const char* kRefusedMethods[] = {
    "RepositoryModelLoad",
    "RepositoryModelUnload",
    "SystemSharedMemoryStatus",
    "SystemSharedMemoryRegister",
    "SystemSharedMemoryUnregister",
    "CudaSharedMemoryStatus",
    "CudaSharedMemoryRegister",
    "CudaSharedMemoryUnregister",
    "TraceSetting",
    "LogSettings",
};
// No release has a number yet.
constexpr char kVersion[] = "0";

}  // namespace

KserveService::KserveService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls)
    : FrontEnd(inference::ModelInferRequest::descriptor()->file()->FindServiceByName(
          "GRPCInferenceService")),
      upstream_(upstream),
      forwarder_(forwarder),
      calls_(calls) {
  ServeFacts();
  Serve("ModelInfer", [this](auto* context) { return BeginInfer(context); });
  Serve("ModelStreamInfer", [this](auto* context) { return BeginStream(context); });
  for (const char* method : kRefusedMethods) {
    Serve(method, [this, method](auto* context) {
      return calls_->RefuseCall(
          context, absl::UnimplementedError(absl::StrCat(method, " is not served here")));
    });
  }
}

template <typename Request, typename Response>
void KserveService::ServeFact(
    const char* method,
    std::function<absl::StatusOr<Response>(const Request&, const ModelState&)> answer) {
  Serve(method, [this, answer = std::move(answer)](auto* context) {
    return calls_->Reply<Request, Response>(
        context, [this, answer](const Request& request, const GrpcCaller&) {
          return answer(request, *upstream_->model());
        });
  });
}

// Facts as the service said it last, a second ago at most.
void KserveService::ServeFacts() {
  namespace pb = inference;
  const auto check = [](const auto& request, const ModelState& state) {
    if (!state.known()) return absl::UnavailableError(kServiceUnreachable);
    return CheckModel(NameOf(request.name(), state), request.version(), state.model.name());
  };
  ServeFact<pb::ServerLiveRequest, pb::ServerLiveResponse>("ServerLive", [](const auto&, auto&) {
    pb::ServerLiveResponse response;
    response.set_live(true);
    return response;
  });
  ServeFact<pb::ServerReadyRequest, pb::ServerReadyResponse>(
      "ServerReady", [](const auto&, const ModelState& state) {
        pb::ServerReadyResponse response;
        response.set_ready(state.ready());
        return response;
      });
  ServeFact<pb::ModelReadyRequest, pb::ModelReadyResponse>(
      "ModelReady", [](const auto& request, const ModelState& state) {
        pb::ModelReadyResponse response;
        response.set_ready(
            state.ready() &&
            CheckModel(NameOf(request.name(), state), request.version(), state.model.name()).ok());
        return response;
      });
  ServeFact<pb::ServerMetadataRequest, pb::ServerMetadataResponse>(
      "ServerMetadata", [](const auto&, auto&) { return DescribeServer(kVersion); });
  ServeFact<pb::ModelMetadataRequest, pb::ModelMetadataResponse>(
      "ModelMetadata",
      [check](const auto& request,
              const ModelState& state) -> absl::StatusOr<pb::ModelMetadataResponse> {
        TUTTI_RETURN_IF_ERROR(check(request, state));
        return DescribeModel(state.model.name());
      });
  ServeFact<pb::ModelConfigRequest, pb::ModelConfigResponse>(
      "ModelConfig",
      [check](const auto& request,
              const ModelState& state) -> absl::StatusOr<pb::ModelConfigResponse> {
        TUTTI_RETURN_IF_ERROR(check(request, state));
        return ConfigOfModel(state.model.name());
      });
  ServeFact<pb::ModelStatisticsRequest, pb::ModelStatisticsResponse>(
      "ModelStatistics",
      [this, check](const auto& request,
                    const ModelState& state) -> absl::StatusOr<pb::ModelStatisticsResponse> {
        auto asked = request;
        if (asked.name().empty()) asked.set_name(state.model.name());
        TUTTI_RETURN_IF_ERROR(check(asked, state));
        return counts_.Describe(state.model.name());
      });
  ServeFact<pb::RepositoryIndexRequest, pb::RepositoryIndexResponse>(
      "RepositoryIndex", [](const auto& request, const ModelState& state) {
        const bool has_any = state.known() && (state.ready() || !request.ready());
        return has_any ? IndexOfModels(state.model.name(), state.ready())
                       : pb::RepositoryIndexResponse();
      });
}

KserveService::Reactor* KserveService::BeginInfer(grpc::CallbackServerContext* context) {
  auto call = std::make_shared<InferCall>();
  return calls_->Start(context, call, /*blocks=*/false,
                       [this, call](door::ReceivedRequest received, const GrpcCaller& caller) {
                         return Infer(std::move(received), caller, call);
                       });
}

absl::Status KserveService::Infer(door::ReceivedRequest received, const GrpcCaller& caller,
                                  const std::shared_ptr<InferCall>& call) {
  inference::ModelInferRequest message;
  TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &message));
  received.bytes.Clear();
  TUTTI_ASSIGN_OR_RETURN(
      InferRequest request,
      ReadInferRequest(message, /*in_stream=*/false, upstream_->model()->model.vocab_size()));
  call->SetProgress(
      std::make_unique<InferProgress>(request, caller.tenant, &counts_, calls_->door()));
  TUTTI_ASSIGN_OR_RETURN(const Forwarder::Cancel cancel,
                         gateway::BeginInfer("inference.GRPCInferenceService/ModelInfer",
                                             std::move(request), caller, forwarder_, call));
  if (!call->Attach(std::move(received.charge), cancel)) cancel();
  return absl::OkStatus();
}

KserveService::Reactor* KserveService::BeginStream(grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<InferStream>(InferService{
      .calls = calls_, .forwarder = forwarder_, .upstream = upstream_, .counts = &counts_});
  calls_->Count(stream);
  auto caller = calls_->Admit(*context);
  {
    const MutexLock lock(&mutex_);
    std::erase_if(streams_, [](const Open& other) { return other.stream.expired(); });
    if (caller.ok()) {
      const absl::Status why = CheckRoomLocked(*caller);
      if (why.ok()) {
        streams_.push_back({stream, caller->tenant, caller->host});
      } else {
        caller = why;
      }
    }
  }
  return stream->Start(context, std::move(caller));
}

absl::Status KserveService::CheckRoomLocked(const GrpcCaller& caller) const {
  TUTTI_RETURN_IF_ERROR(calls_->CheckStays());  // once drained, streams are not looked at again
  if (static_cast<int64_t>(streams_.size()) >= kInferStreamsMax) {
    return door::Overloaded("too many streams are open");
  }
  const int64_t own = std::count_if(streams_.begin(), streams_.end(), [&](const Open& other) {
    return other.tenant == caller.tenant && (!caller.tenant.empty() || other.host == caller.host);
  });
  if (own < kInferStreamsPerCallerMax) return absl::OkStatus();
  return door::Overloaded(absl::StrCat("the caller has ", own, " streams open, the limit is ",
                                       kInferStreamsPerCallerMax));
}

void KserveService::Drain() {
  std::vector<Open> streams;
  {
    const MutexLock lock(&mutex_);
    streams.swap(streams_);
  }
  for (const Open& open : streams) {
    if (const auto stream = open.stream.lock()) stream->Drain();
  }
}

}  // namespace tutti::gateway
