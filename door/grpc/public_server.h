// The port that clients call: our listener, gRPC's server, health checks and reflection.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/grpc/grpc_listener.h"

namespace tutti::door {

// Thread: the owner's, one call at a time.
class PublicServer {
 public:
  // Listens on `address`: host:port, port 0 for any free one, or unix:/path; `flag`: by which it
  // was given; is_secure: the credentials are TLS; `book`: told by the services what becomes of
  // connections' bytes; `bounds`: of its connections. UNAVAILABLE names flag and address.
  // REQUIRES: book and services outlive the server.
  static absl::StatusOr<std::unique_ptr<PublicServer>> Start(
      const std::string& flag, const std::string& address,
      std::shared_ptr<grpc::ServerCredentials> credentials, bool is_secure,
      transport::CreditBook* book, const std::vector<grpc::Service*>& services,
      transport::ConnectionBounds bounds);
  ~PublicServer();

  // host:port (or unix:path), with the port that was bound.
  const std::string& address() const { return listener_->address(); }
  // Lives as long as the server; for any thread.
  grpc::HealthCheckServiceInterface* health() const { return server_->GetHealthCheckService(); }

  // Takes no more connections and ends those that are there: calls that are left hear UNAVAILABLE,
  // from which clients go on elsewhere.
  void Shutdown();
  // Waits until all calls are gone.
  void Wait() { server_->Wait(); }

 private:
  PublicServer() = default;

  std::unique_ptr<transport::GrpcListener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tutti::door
