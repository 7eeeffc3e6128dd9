#include "gateway/vllm/grpc/vllm_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "door/grpc/message_parser.h"
#include "gateway/api_error.h"
#include "gateway/caller_rules.h"
#include "gateway/grpc/tenant_mark.h"
#include "gateway/vllm/engine_request.h"

namespace tutti::gateway {
namespace {

namespace engine = vllm::grpc::engine;

struct Refused {
  const char* method;
  const char* why;
};
constexpr Refused kRefusals[] = {
    {"Embed", "this service generates text"},
    {"GetLoads", "a gateway does not know the load of the service; see its metrics"},
    {"FlushCache", "the cache is the operator's"},
    {"GetTokenizer", "a gateway has no files of the model"},
    {"SubscribeKvEvents", "cached prompts are the tenants' own"},
};
// Below it nobody looks for names whose requests have ended.
constexpr size_t kNamedMin = 1024;

// The name by which callers without keys are told apart, too.
std::pair<std::string, std::string> NameOf(const GrpcCaller& caller, const std::string& id) {
  return {caller.tenant, NameForService(id, caller.tenant, caller.host)};
}

}  // namespace

VllmService::VllmService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls)
    : FrontEnd(engine::GenerateRequest::descriptor()->file()->FindServiceByName("VllmEngine")),
      upstream_(upstream),
      forwarder_(forwarder),
      calls_(calls) {
  Serve("Generate", [this](auto* context) { return BeginGenerate(context); });
  Serve("Abort", [this](auto* context) {
    return calls_->Reply<engine::AbortRequest, engine::AbortResponse>(
        context, [this](const auto& request, const GrpcCaller& caller) {
          Abort(request, caller);
          return engine::AbortResponse();
        });
  });
  Serve("HealthCheck", [this](auto* context) {
    return calls_->Reply<engine::HealthCheckRequest, engine::HealthCheckResponse>(
        context, [this](const auto&, const GrpcCaller&) {
          engine::HealthCheckResponse response;
          response.set_healthy(upstream_->model()->ready());
          response.set_message(response.healthy() ? "serving" : "the service is not ready");
          return response;
        });
  });
  Serve("GetModelInfo", [this](auto* context) {
    return calls_->Reply<engine::GetModelInfoRequest, engine::GetModelInfoResponse>(
        context,
        [this](const auto&, const GrpcCaller&) -> absl::StatusOr<engine::GetModelInfoResponse> {
          const auto state = upstream_->model();
          if (!state->known()) return absl::UnavailableError(kServiceUnreachable);
          return DescribeForEngine(state->model);
        });
  });
  Serve("GetServerInfo", [this](auto* context) {
    return calls_->Reply<engine::GetServerInfoRequest, engine::GetServerInfoResponse>(
        context, [this](const auto&, const GrpcCaller&) { return DescribeServer(); });
  });
  for (const Refused& refused : kRefusals) {
    Serve(refused.method, [this, refused](auto* context) {
      return calls_->RefuseCall(
          context, absl::UnimplementedError(
                       absl::StrCat(refused.method, " is not served here: ", refused.why)));
    });
  }
}

VllmService::Reactor* VllmService::BeginGenerate(grpc::CallbackServerContext* context) {
  auto call = std::make_shared<EngineCall>();
  return calls_->Start(context, call, /*blocks=*/false,
                       [this, call](door::ReceivedRequest received, const GrpcCaller& caller) {
                         return Generate(std::move(received), caller, call);
                       });
}

absl::Status VllmService::Generate(door::ReceivedRequest received, const GrpcCaller& caller,
                                   const std::shared_ptr<EngineCall>& call) {
  engine::GenerateRequest message;
  TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &message));
  received.bytes.Clear();
  TUTTI_ASSIGN_OR_RETURN(v1::GenerateRequest request, ReadEngineRequest(message));
  call->Identify(request.request_id(), RequestId(), TenantMark(caller.tenant));
  call->SetRequest(message.stream(), request);
  const auto cancel =
      forwarder_->Begin("vllm.grpc.engine.VllmEngine/Generate", std::move(request), caller, call);
  if (!cancel.ok()) return RenameField(cancel.status(), EnginePaths());
  if (!call->AttachCall(std::move(received.charge), *cancel)) (*cancel)();
  const MutexLock lock(&mutex_);
  last_request_s_ =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (message.request_id().empty()) return absl::OkStatus();
  if (named_.size() >= 2 * named_after_look_ + kNamedMin) {
    std::erase_if(named_, [](const auto& entry) { return entry.second.expired(); });
    named_after_look_ = named_.size();
  }
  named_.emplace(NameOf(caller, message.request_id()), call);
  return absl::OkStatus();
}

void VllmService::Abort(const engine::AbortRequest& request, const GrpcCaller& caller) {
  std::vector<std::shared_ptr<EngineCall>> found;
  {
    const MutexLock lock(&mutex_);
    for (const std::string& id : request.request_ids()) {
      const auto [begin, end] = named_.equal_range(NameOf(caller, id));
      for (auto at = begin; at != end; ++at) {
        if (auto call = at->second.lock()) found.push_back(std::move(call));
      }
      named_.erase(begin, end);
    }
  }
  for (const auto& call : found) call->Abort();
}

engine::GetServerInfoResponse VllmService::DescribeServer() {
  engine::GetServerInfoResponse info;
  info.set_active_requests(static_cast<uint32_t>(upstream_->calls.load()));
  info.set_uptime_seconds(Seconds(clock_.Now() - begin_));
  // The name of the protocol, by which routers choose how to speak.
  info.set_server_type("vllm-grpc");
  info.set_data_parallel_size(1);
  const MutexLock lock(&mutex_);
  info.set_last_receive_timestamp(last_request_s_);
  return info;
}

}  // namespace tutti::gateway
