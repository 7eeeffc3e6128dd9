#include "gateway/grpc/grpc_port.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "transport/grpc/credentials.h"
#include "transport/roles.h"

namespace tutti::gateway {
namespace {

constexpr char kFlag[] = "--grpc";
// The time for the last words of calls that were refused.
constexpr std::chrono::milliseconds kLastWords{200};
constexpr std::chrono::milliseconds kLook{5};

// The services that a caller may ask the port to describe, in the order of their names.
std::vector<std::string> NamesOf(const std::vector<std::unique_ptr<FrontEnd>>& front_ends) {
  std::vector<std::string> names = {"grpc.health.v1.Health",
                                    "grpc.reflection.v1alpha.ServerReflection"};
  for (const auto& front_end : front_ends) names.push_back(front_end->descriptor()->full_name());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

GrpcPort::GrpcPort(const GrpcPortOptions& options, DoorRules rules, Upstream* upstream,
                   PostToLoop post, Traffic* traffic, metrics::SpanWriter* spans)
    : rules_(std::move(rules)),
      upstream_(upstream),
      door_(options.door),
      forwarder_(upstream, std::move(post), traffic, spans),
      calls_(&rules_, upstream, &door_),
      front_ends_(MakeFrontEnds(upstream, &forwarder_, &calls_)),
      reflection_(NamesOf(front_ends_)) {}

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Start(const GrpcPortOptions& options,
                                                          DoorRules rules, Upstream* upstream,
                                                          PostToLoop post, Traffic* traffic,
                                                          metrics::SpanWriter* spans) {
  // Callers show keys, no certificates.
  auto credentials =
      transport::MakeServerCredentials(options.listen, options.tls,
                                       {.without_certificate = {transport::Role::kClient},
                                        .certificates_needed = false,
                                        .plaintext = options.plaintext});
  if (absl::IsFailedPrecondition(credentials.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        kFlag, ": ", credentials.status().message(),
        "; give --tls-cert and --tls-key, or say --grpc-plaintext if a mesh's proxy encrypts"));
  }
  if (!credentials.ok()) return Annotate(credentials.status(), kFlag);
  std::unique_ptr<GrpcPort> port(
      new GrpcPort(options, std::move(rules), upstream, std::move(post), traffic, spans));
  std::vector<const google::protobuf::FileDescriptor*> files;
  std::vector<grpc::Service*> services;
  for (const auto& front_end : port->front_ends_) {
    files.push_back(front_end->descriptor()->file());
    services.push_back(front_end.get());
  }
  services.push_back(&port->reflection_);
  TUTTI_RETURN_IF_ERROR(transport::CheckMethodTable(files));
  TUTTI_ASSIGN_OR_RETURN(
      port->server_,
      door::PublicServer::Start(kFlag, options.listen, *std::move(credentials), options.tls.any(),
                                &port->door_.book, services, options.bounds));
  port->Tick();
  return port;
}

// Calls that are at their last words may say them; then the connections end, which callers hear as
// UNAVAILABLE.
GrpcPort::~GrpcPort() {
  if (server_ == nullptr) return;
  Drain();
  const SystemClock clock;
  const Instant deadline = clock.Now() + kLastWords;
  while (under_way() > 0 && clock.Now() < deadline) std::this_thread::sleep_for(kLook);
  server_->Shutdown();
  server_->Wait();
}

void GrpcPort::Tick() {
  const bool serves = !draining_ && upstream_->model()->ready();
  server_->health()->SetServingStatus("", serves);
  for (const auto& front_end : front_ends_) {
    server_->health()->SetServingStatus(front_end->descriptor()->full_name(), serves);
  }
}

void GrpcPort::Drain() {
  draining_ = true;
  calls_.Drain();
  for (const auto& front_end : front_ends_) front_end->Drain();
  Tick();
}

}  // namespace tutti::gateway
