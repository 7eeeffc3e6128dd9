// The coordinator process, assembled: engine loop, output hub, services, the public port and the
// workers' port.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/service/admin_service.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/generation_service.h"
#include "coordinator/service/output_hub.h"
#include "coordinator/service/served_model.h"
#include "transport/grpc/grpc_link.h"

namespace tutti::coordinator {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:50051";       // public API; port 0: the system chooses
  std::string peer_listen = "127.0.0.1:50052";  // workers; may be unix:/path
  // PEM files. Without a certificate the public port listens on loopback or a Unix socket only.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;  // when set, clients must present a certificate it signed
  // Workers' port. With all three files both ends authenticate each other; with none it listens
  // locally only.
  transport::TlsFiles peer_tls;
  std::string ready_file;           // written when the public port listens
  bool share_cache_domain = false;  // all tenants share one cache domain
  EngineOptions engine;             // model, name and fingerprint are filled in by Start
};

class Coordinator : public EngineSink {
 public:
  Coordinator(std::unique_ptr<ServedModel> model, CoordinatorOptions options);
  ~Coordinator() override;

  // Opens both ports. Fails with the address and the reason.
  absl::Status Start();
  // Stops admitting, lets running requests finish until `grace` passes, then ends everything.
  void Shutdown(Duration grace);

  // host:port (or unix:path) of the public API.
  const std::string& address() const { return address_; }

 private:
  void OnTokens(DeliverTokens tokens) override;
  void OnFinish(FinishRequest finish) override;
  void OnServing(bool serving, const std::string& why_not) override;
  absl::Status StartPublicServer();
  absl::Status WriteReadyFile() const;

  const std::unique_ptr<ServedModel> model_;
  const CoordinatorOptions options_;
  const SystemClock clock_;
  ServingState serving_;
  std::unique_ptr<OutputHub> hub_;
  std::unique_ptr<EngineLoop> engine_;
  std::unique_ptr<GenerationService> generation_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<transport::GrpcPeerServer> peer_server_;
  std::unique_ptr<grpc::Server> server_;
  // Set before the engine's thread may use it, through server_; null while starting.
  std::atomic<grpc::HealthCheckServiceInterface*> health_{nullptr};
  std::string address_;
  bool was_serving_ = false;  // owned by the engine thread
};

}  // namespace tutti::coordinator
