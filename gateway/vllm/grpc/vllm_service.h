// vllm.grpc.engine.VllmEngine: the protocol of routers that make the text themselves.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "gateway/grpc/front_end.h"
#include "gateway/service/upstream.h"
#include "gateway/vllm/grpc/engine_call.h"
#include "vllm/vllm_engine.pb.h"

namespace tutti::gateway {

// Thread: gRPC's.
class VllmService : public FrontEnd {
 public:
  // REQUIRES: everything outlives the service
  VllmService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls);

 private:
  // The tenant of a request, and its name at the service.
  using Name = std::pair<std::string, std::string>;

  Reactor* BeginGenerate(grpc::CallbackServerContext* context);
  absl::Status Generate(door::ReceivedRequest received, const GrpcCaller& caller,
                        const std::shared_ptr<EngineCall>& call);
  // Requests of the caller only: of its tenant, or of its host where there are no keys.
  void Abort(const vllm::grpc::engine::AbortRequest& request, const GrpcCaller& caller);
  vllm::grpc::engine::GetServerInfoResponse DescribeServer();

  Upstream* const upstream_;
  Forwarder* const forwarder_;
  AdmittedCalls* const calls_;
  const SystemClock clock_{};
  const Instant begin_ = clock_.Now();
  Mutex mutex_;
  std::multimap<Name, std::weak_ptr<EngineCall>> named_ ABSL_GUARDED_BY(mutex_);
  size_t named_after_look_ ABSL_GUARDED_BY(mutex_) = 0;  // when ended ones were last left out
  double last_request_s_ ABSL_GUARDED_BY(mutex_) = 0;    // since 1970
};

}  // namespace tutti::gateway
