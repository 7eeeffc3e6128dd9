// tutti.v1.Inference as the gateway offers it: what callers ask is given to the service behind.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "door/grpc/client_call.h"
#include "door/grpc/generate_stream.h"
#include "gateway/grpc/front_end.h"
#include "gateway/grpc/grpc_caller.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// Thread: gRPC's.
class InferenceService : public FrontEnd {
 public:
  // REQUIRES: everything outlives the service
  InferenceService(Upstream* upstream, Forwarder* forwarder, AdmittedCalls* calls);

 private:
  Reactor* BeginGenerate(grpc::CallbackServerContext* context);
  absl::Status Generate(door::ReceivedRequest received, const GrpcCaller& caller,
                        const std::shared_ptr<door::GenerateStream>& stream);
  Reactor* BeginGetModel(grpc::CallbackServerContext* context);
  // Parses a request, asks the service by `ask`, and answers.
  template <typename Request, typename Ask>
  Reactor* BeginUnary(grpc::CallbackServerContext* context, Ask ask);

  Upstream* const upstream_;
  Forwarder* const forwarder_;
  AdmittedCalls* const calls_;
};

}  // namespace tutti::gateway
