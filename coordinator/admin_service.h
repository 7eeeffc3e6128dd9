// tutti.v1.Admin over gRPC: what an operator asks.
#pragma once

#include "coordinator/engine_loop.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti {

class AdminService : public v1::Admin::CallbackService {
 public:
  // REQUIRES: `engine` outlives the service.
  explicit AdminService(EngineLoop* engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  EngineLoop* const engine_;
};

}  // namespace tutti
