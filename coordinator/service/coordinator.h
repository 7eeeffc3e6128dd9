// The coordinator process, assembled: engine loop, output hub, services, the public port, the
// operator's and the workers'.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/service/admin_service.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/generation_service.h"
#include "coordinator/service/leader_lease.h"
#include "coordinator/service/leadership.h"
#include "coordinator/service/metrics_page.h"
#include "coordinator/service/operator_server.h"
#include "coordinator/service/output_hub.h"
#include "coordinator/service/served_model.h"
#include "coordinator/weights/limits.h"
#include "door/door.h"
#include "door/grpc/port_rules.h"
#include "door/grpc/public_server.h"
#include "door/grpc/reflection_service.h"
#include "metrics/listener.h"
#include "metrics/span_writer.h"
#include "model/digest_run.h"
#include "transport/grpc/grpc_link.h"
#include "transport/peer_security.h"

namespace tutti::coordinator {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:50051";  // public API; port 0: the system chooses
  std::string peer_listen;                 // workers; may be unix:/path
  // The operator's port; empty: transport::OperatorAddress of the public one's.
  std::string admin_listen;
  // PEM files. Without a certificate the public port listens on loopback or a Unix socket only.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;  // when set, clients must present a certificate it signed
  // Workers' port. With all three files both ends authenticate each other; with none it listens
  // locally only.
  transport::TlsFiles peer_tls;
  std::string secret_file;           // of the cluster's secret; empty: none
  bool without_clients_ca = false;   // see PublicPort
  bool plaintext = false;            // see PublicPort
  std::string public_role = "auto";  // see PublicPort
  std::string ready_file;            // written when the public port listens
  std::string metrics_listen;        // host:port of /metrics; empty: nowhere
  bool vllm_metrics = false;         // vLLM's names there too
  metrics::TraceOptions traces;
  // The lease that says who leads, where there are several coordinators; null: this one alone.
  // `on_leads_no_more` is called on any thread when the lease is lost, and should end the process.
  std::shared_ptr<LeaderLease> lease;
  std::function<void(const std::string& why)> on_leads_no_more;
  // Bytes to workers without the checkpoint, all together; 0: no limit.
  int64_t weights_bytes_per_second = kWeightsBytesPerSecond;
  bool share_cache_domain = false;  // all tenants share one cache domain
  door::DoorOptions door;           // bounds of what is held for clients
  EngineOptions engine;             // model, name and fingerprint are filled in by Start
};

class Coordinator : public EngineSink {
 public:
  Coordinator(std::unique_ptr<ServedModel> model, CoordinatorOptions options);
  ~Coordinator() override;

  // Opens all ports. Fails with the address and the reason.
  absl::Status Start();
  // Whether there is no time left after all.  Thread: the caller's.
  using Hurried = std::function<bool()>;
  // Stops admitting and lets what runs finish until `grace` has passed, or `hurried` says so; null:
  // never. Requests that run still are then ended with a reason, and everything with them.
  void Shutdown(Duration grace, const Hurried& hurried = nullptr);

  // host:port (or unix:path) of the public API.
  const std::string& address() const { return server_->address(); }
  // The same of the operator's port.
  const std::string& admin_address() const { return operator_server_->address(); }
  // The same of /metrics; empty: nowhere.
  std::string metrics_address() const {
    return metrics_server_ == nullptr ? "" : metrics_server_->address();
  }

 private:
  void OnTokens(DeliverTokens tokens) override;
  void OnFinish(FinishRequest finish) override;
  void OnServing(const ServingChanged& changed) override;
  void OnLeaseOver() override;
  absl::Status StartPublicServer();
  absl::Status StartMetricsServer();
  std::unique_ptr<model::DigestRun> StartDigests();
  void OfferWeights(std::shared_ptr<const model::CheckpointDigests> digests);
  absl::Status StartPeerServer(const transport::PeerSecurity& security);
  door::PublicPort PublicPortOptions() const;
  absl::Status SayReady() const;
  // Leads at once where there is no lease, or stands by for it.
  absl::Status BeginToLead();
  void Lead(uint32_t incarnation, bool judged);
  transport::AcceptCallback WorkerAcceptor();

  const std::unique_ptr<ServedModel> model_;
  const CoordinatorOptions options_;
  const SystemClock clock_{};
  door::Door door_;
  std::unique_ptr<metrics::SpanWriter> spans_;  // null: nothing is traced
  RequestMetrics request_metrics_;
  StepMetrics step_metrics_;
  ServingState serving_;
  std::unique_ptr<OutputHub> hub_;
  std::unique_ptr<WeightsServer> weights_;
  std::unique_ptr<EngineLoop> engine_;
  std::unique_ptr<model::DigestRun> digests_;
  std::unique_ptr<GenerationService> generation_;
  std::unique_ptr<AdminService> admin_;
  door::ReflectionService reflection_{
      {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "tutti.v1.Inference"}};
  std::unique_ptr<transport::GrpcPeerServer> peer_server_;
  std::unique_ptr<OperatorServer> operator_server_;
  std::unique_ptr<door::PublicServer> server_;
  std::unique_ptr<metrics::Listener> metrics_server_;  // its page sees the engine
  // Set before the engine's thread may use it, through server_; null while starting.
  std::atomic<grpc::HealthCheckServiceInterface*> health_{nullptr};
  bool was_serving_ = false;  // owned by the engine thread
  // The engine has been told before any worker is taken.
  std::shared_ptr<std::atomic<bool>> leads_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Leadership> leadership_;
};

}  // namespace tutti::coordinator
