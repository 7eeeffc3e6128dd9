#include "gateway/grpc/grpc_port.h"

#include <utility>

#include "transport/grpc/credentials.h"

namespace tutti::gateway {
namespace {

constexpr char kFlag[] = "--grpc";
constexpr const char* kServices[] = {"", "tutti.v1.Inference"};
// For the last words of calls that were refused.
constexpr std::chrono::milliseconds kLastWords{200};

}  // namespace

GrpcPort::GrpcPort(const GrpcPortOptions& options, DoorRules rules, Upstream* upstream,
                   PostToLoop post, Traffic* traffic)
    : rules_(std::move(rules)),
      upstream_(upstream),
      door_(options.door),
      forwarder_(upstream, std::move(post), traffic),
      service_(&rules_, upstream, &forwarder_, &door_),
      reflection_({"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
                   "tutti.v1.Inference"}) {}

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Start(const GrpcPortOptions& options,
                                                          DoorRules rules, Upstream* upstream,
                                                          PostToLoop post, Traffic* traffic) {
  // Callers show keys, no certificates.
  auto credentials = transport::MakeServerCredentials(
      options.listen, options.tls,
      {.without_certificate = {transport::Role::kClient}, .certificates_needed = false});
  if (!credentials.ok()) return Annotate(credentials.status(), kFlag);
  std::unique_ptr<GrpcPort> port(
      new GrpcPort(options, std::move(rules), upstream, std::move(post), traffic));
  TUTTI_ASSIGN_OR_RETURN(port->server_,
                         coordinator::PublicServer::Start(
                             kFlag, options.listen, *std::move(credentials), options.tls.any(),
                             &port->door_.book, {&port->service_, &port->reflection_}));
  port->Tick();
  return port;
}

// Connections are closed before gRPC ends its server: that would cancel calls that come meanwhile,
// and a client would take CANCELLED for its own doing. So it sees a connection that breaks.
GrpcPort::~GrpcPort() {
  if (server_ == nullptr) return;
  Drain();
  server_->CloseConnections();
  server_->Shutdown(kLastWords);
  server_->Wait();
}

void GrpcPort::Tick() {
  const bool serves = !draining_ && upstream_->model()->ready();
  for (const char* name : kServices) server_->health()->SetServingStatus(name, serves);
}

void GrpcPort::Drain() {
  draining_ = true;
  service_.Drain();
  Tick();
}

}  // namespace tutti::gateway
