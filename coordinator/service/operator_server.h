// The port on which the operator's calls come, away from the public one.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "coordinator/service/admin_service.h"
#include "door/grpc/port_rules.h"
#include "transport/grpc/grpc_listener.h"

namespace tutti::coordinator {

// Thread: the owner's.
class OperatorServer {
 public:
  // Listens on `address`. Errors of OperatorCredentials; UNAVAILABLE when it cannot listen there,
  // or another process does.  REQUIRES: `service` outlives the server.
  static absl::StatusOr<std::unique_ptr<OperatorServer>> Start(const std::string& address,
                                                               const door::PublicPort& port,
                                                               AdminService* service);
  ~OperatorServer() { Stop(); }

  // The address with the port that was bound.
  const std::string& address() const { return listener_->address(); }
  // Cuts calls off. Idempotent.
  void Stop();

 private:
  OperatorServer() = default;

  std::unique_ptr<transport::GrpcListener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tutti::coordinator
