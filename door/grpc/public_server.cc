#include "door/grpc/public_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/grpc/public_port.h"

namespace tutti::door {
absl::StatusOr<std::unique_ptr<PublicServer>> PublicServer::Start(
    const std::string& flag, const std::string& address,
    std::shared_ptr<grpc::ServerCredentials> credentials, bool is_secure,
    transport::CreditBook* book, const std::vector<grpc::Service*>& services,
    transport::ConnectionBounds bounds) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  transport::ConfigurePort(&builder);
  ConfigurePublicPort(&builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<PublicServer> server(new PublicServer);
  auto listener = transport::GrpcListener::Listen(
      {.address = address, .is_secure = is_secure, .bounds = bounds, .probe = {}, .book = book},
      std::move(credentials), &builder);
  if (!listener.ok()) return Annotate(listener.status(), flag);
  server->listener_ = *std::move(listener);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(flag, " ", address, ": gRPC cannot serve"));
  }
  server->listener_->Start();
  return server;
}

PublicServer::~PublicServer() {
  if (server_ != nullptr) Shutdown();
}

void PublicServer::Shutdown() {
  listener_->Stop();
  // Before the server, which would tell its last calls that they were cancelled.
  listener_->EndConnections();
  server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace tutti::door
