#include "gateway/grpc/grpc_port.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "transport/grpc/credentials.h"
#include "transport/roles.h"

namespace tutti::gateway {
namespace {

constexpr char kFlag[] = "--grpc";
constexpr const char* kServices[] = {"", "inference.GRPCInferenceService", "tutti.v1.Inference",
                                     "vllm.grpc.engine.VllmEngine"};
// The time for the last words of calls that were refused.
constexpr std::chrono::milliseconds kLastWords{200};
constexpr std::chrono::milliseconds kLook{5};

}  // namespace

GrpcPort::GrpcPort(const GrpcPortOptions& options, DoorRules rules, Upstream* upstream,
                   PostToLoop post, Traffic* traffic, metrics::SpanWriter* spans)
    : rules_(std::move(rules)),
      upstream_(upstream),
      door_(options.door),
      forwarder_(upstream, std::move(post), traffic, spans),
      calls_(&rules_, upstream, &door_),
      service_(upstream, &forwarder_, &calls_),
      kserve_(upstream, &forwarder_, &calls_),
      vllm_(upstream, &forwarder_, &calls_),
      reflection_({"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
                   "inference.GRPCInferenceService", "tutti.v1.Inference",
                   "vllm.grpc.engine.VllmEngine"}) {}

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Start(const GrpcPortOptions& options,
                                                          DoorRules rules, Upstream* upstream,
                                                          PostToLoop post, Traffic* traffic,
                                                          metrics::SpanWriter* spans) {
  const google::protobuf::FileDescriptor* const files[] = {
      inference::ModelInferRequest::descriptor()->file(),
      vllm::grpc::engine::GenerateRequest::descriptor()->file()};
  TUTTI_RETURN_IF_ERROR(transport::CheckMethodTable(files));
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
  TUTTI_ASSIGN_OR_RETURN(
      port->server_,
      door::PublicServer::Start(
          kFlag, options.listen, *std::move(credentials), options.tls.any(), &port->door_.book,
          {&port->service_, &port->kserve_, &port->vllm_, &port->reflection_}, options.bounds));
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
  for (const char* name : kServices) server_->health()->SetServingStatus(name, serves);
}

void GrpcPort::Drain() {
  draining_ = true;
  calls_.Drain();
  kserve_.Drain();
  Tick();
}

}  // namespace tutti::gateway
