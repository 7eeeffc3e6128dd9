#include "coordinator/service/operator_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "door/limits.h"
#include "transport/connection_table.h"
#include "transport/limits.h"
#include "transport/private_folder.h"

namespace tutti::coordinator {

absl::StatusOr<std::unique_ptr<OperatorServer>> OperatorServer::Start(const std::string& address,
                                                                      const door::PublicPort& port,
                                                                      AdminService* service) {
  TUTTI_ASSIGN_OR_RETURN(auto credentials, door::OperatorCredentials(address, port));
  const std::string where = absl::StrCat("--admin-listen ", address);
  std::unique_ptr<OperatorServer> started(new OperatorServer);
  grpc::ServerBuilder builder;
  transport::ConfigurePort(&builder);
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(door::kRequestBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, door::kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(Milliseconds(door::kPublicIdleMax)));
  auto listener = transport::GrpcListener::Listen(
      {.address = address,
       .is_secure = transport::SocketFolder(address).empty(),
       .bounds = {.total = kOperatorConnectionsMax,
                  .per_account = kOperatorConnectionsMax / transport::kPerAddressDivisor},
       .probe = {}},
      std::move(credentials), &builder);
  TUTTI_RETURN_IF_ERROR(Annotate(listener.status(), where));
  started->listener_ = *std::move(listener);
  started->server_ = builder.BuildAndStart();
  if (started->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(where, ": gRPC cannot serve"));
  }
  started->listener_->Start();
  return started;
}

void OperatorServer::Stop() {
  if (server_ == nullptr) return;
  listener_->Stop();
  listener_->EndConnections();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

}  // namespace tutti::coordinator
