// inference.GRPCInferenceService: KServe's protocol with Triton's methods.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gateway/grpc/front_end.h"
#include "gateway/kserve/grpc/infer_stream.h"
#include "gateway/kserve/infer_counts.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// Thread: gRPC's.
class KserveService : public FrontEnd {
 public:
  // REQUIRES: everything outlives the service
  KserveService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls);

  void Drain() override;

 private:
  struct Open {
    std::weak_ptr<InferStream> stream;
    std::string tenant, host;  // of its caller
  };

  // Why the caller may not open another stream, if so.
  absl::Status CheckRoomLocked(const GrpcCaller& caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ServeFacts();
  Reactor* BeginInfer(grpc::CallbackServerContext* context);
  absl::Status Infer(door::ReceivedRequest received, const GrpcCaller& caller,
                     const std::shared_ptr<InferCall>& call);
  Reactor* BeginStream(grpc::CallbackServerContext* context);
  // Serves a method by a function of its request and the model's state.
  template <typename Request, typename Response>
  void ServeFact(const char* method,
                 std::function<absl::StatusOr<Response>(const Request&, const ModelState&)> answer);

  Upstream* const upstream_;
  Forwarder* const forwarder_;
  AdmittedCalls* const calls_;
  InferCounts counts_;
  Mutex mutex_;
  std::vector<Open> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
