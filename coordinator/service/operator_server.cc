#include "coordinator/service/operator_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "transport/grpc/grpc_address.h"
#include "transport/private_folder.h"

namespace tutti::coordinator {

absl::StatusOr<std::unique_ptr<OperatorServer>> OperatorServer::Start(const std::string& address,
                                                                      const PublicPort& port,
                                                                      AdminService* service) {
  TUTTI_ASSIGN_OR_RETURN(auto credentials, OperatorCredentials(address, port));
  const std::string where = absl::StrCat("--admin-listen ", address);
  TUTTI_RETURN_IF_ERROR(Annotate(transport::ClaimSocket(address), where));
  std::unique_ptr<OperatorServer> started(new OperatorServer);
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(address, credentials, &bound);
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  started->server_ = builder.BuildAndStart();
  if (started->server_ == nullptr || (bound == 0 && transport::SocketFolder(address).empty())) {
    return absl::UnavailableError(absl::StrCat(where, ": cannot listen there"));
  }
  started->address_ = transport::WithPort(address, bound);
  return started;
}

void OperatorServer::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

}  // namespace tutti::coordinator
