// tutti.v1.Inference as the gateway offers it: calls are admitted, read under the bounds of the
// door, and given to the service behind.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/service/client_call.h"
#include "coordinator/service/door.h"
#include "coordinator/service/generate_stream.h"
#include "gateway/door_rules.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/grpc/grpc_caller.h"
#include "gateway/service/upstream.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::gateway {

// Thread: gRPC's for its methods; any for the others.
class InferenceService : public v1::Inference::Service {
 public:
  // REQUIRES: everything outlives the service
  InferenceService(const DoorRules* rules, Upstream* upstream, Forwarder* forwarder,
                   coordinator::Door* door);

  // From now on calls are refused.
  void Drain() { draining_ = true; }
  // Calls that gRPC is not done with.
  int64_t under_way();
  int64_t begun() const { return begun_; }

 private:
  using Call = coordinator::ClientCall;
  using BeginCall = Call::Reactor* (InferenceService::*)(grpc::CallbackServerContext*);
  // Does what a call asks for. An error ends it.
  using Work = std::function<absl::Status(coordinator::ReceivedRequest, const GrpcCaller&)>;

  // Serves a method of the API by `begin`.
  void Serve(const char* method, BeginCall begin);
  Call::Reactor* BeginGenerate(grpc::CallbackServerContext* context);
  Call::Reactor* BeginTokenize(grpc::CallbackServerContext* context);
  Call::Reactor* BeginDetokenize(grpc::CallbackServerContext* context);
  Call::Reactor* BeginGetModel(grpc::CallbackServerContext* context);

  // Starts a call whose caller is let in; others are ended. `blocks`: `work` waits for the service.
  Call::Reactor* Start(grpc::CallbackServerContext* context, std::shared_ptr<Call> call,
                       bool blocks, Work work);
  absl::Status Generate(coordinator::ReceivedRequest received, const GrpcCaller& caller,
                        const std::shared_ptr<coordinator::GenerateStream>& stream);
  absl::Status GetModel(coordinator::UnaryCall* call) const;
  // Parses a request, asks the service by `ask`, and answers.
  template <typename Request, typename Ask>
  Call::Reactor* BeginUnary(grpc::CallbackServerContext* context, Ask ask);

  const DoorRules* const rules_;
  Upstream* const upstream_;
  Forwarder* const forwarder_;
  coordinator::Door* const door_;
  const SystemClock clock_{};
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> begun_{0};
  Mutex mutex_;
  std::vector<std::weak_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
