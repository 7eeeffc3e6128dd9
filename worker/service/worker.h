// The worker process, assembled: backend, model, executor, the port the previous stage dials.
//
// Life: join the coordinator, load the shard it assigns, serve steps, join again whenever the
// coordinator goes away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/device_exchange.h"
#include "metrics/listener.h"
#include "transport/grpc/grpc_link.h"
#include "transport/identifying_dialer.h"
#include "transport/peer_security.h"
#include "worker/executor.h"
#include "worker/links/peer_finder.h"
#include "worker/speed_probe.h"

namespace tutti::worker {

struct WorkerOptions {
  std::string model_dir;                  // or a name on the hub; "": fetched from the coordinator
  std::string revision;                   // of such a name
  std::string cache_dir;                  // where what is fetched is kept
  std::string draft_dir;                  // of a draft model, or a name on the hub; "": none
  std::vector<std::string> coordinators;  // where to dial them: host:port or unix:/path
  std::string listen;                     // where the previous stage and other ranks dial us
  std::string worker_id;
  std::string cluster_id;
  std::string device = "cpu";  // a backend's name, such as "cuda:0"
  std::string numerics_class;  // "": the machine's best
  bool cuda_graphs = true;     // see kernels::BackendOptions::graphs
  bool cuda_early_kernels = true;
  // The folder where ranks of a stage on one machine meet to share memory; "": nowhere.
  std::string shared_memory_dir = "/dev/shm";
  // The workers between which GPUs exchange directly.
  kernels::DeviceExchangeScope device_exchange = kernels::DeviceExchangeScope::kMachine;
  int64_t memory_bytes = 0;    // for weights, KV cache and work; 0: a share of the GPU's
  int threads = 0;             // 0: all CPUs the process may use
  MeasuredSpeed speed;         // told by the operator; unknown: see below
  bool measure_speed = false;  // at start, if it is not told
  bool tune_kernels = false;   // at start, where the model is large enough to be worth it
  std::string speed_file;      // shared by the workers of a machine; "": none
  PeerRules peers;             // `peers_are_proved` follows from tls and secret_file
  std::string advertise;       // see Announcer::Create
  transport::TlsFiles tls;
  std::string secret_file;                              // of the cluster's secret; empty: none
  std::string metrics_listen;                           // host:port of /metrics; empty: nowhere
  kernels::LostDeviceHandler on_lost_device = nullptr;  // see kernels::BackendOptions
  GpuMonitor* gpu = nullptr;  // of the device, if it has one; outlives the worker
};

// Thread: the one that created it.
class Worker {
 public:
  // Opens model, backend and port; waits for the coordinator only where it has the model. Errors
  // say which option or file is wrong; that of `keep_on` if it ended the wait.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(
      const WorkerOptions& options, const KeepOn& keep_on = [] { return absl::OkStatus(); });
  ~Worker();

  // host:port (or unix:path) the previous stage and other ranks dial.
  const std::string& address() const { return server_->address(); }

  // Asks the coordinator to let this worker go, which it has `grace` for. Until then it serves. At
  // once where there is no coordinator, or while a shard is being loaded.
  void Leave(Duration grace);
  // Whether it was let go.
  bool has_left() { return executor_->WaitStopped(Duration::zero()); }

  // Finishes the step in progress and closes all links. False when that takes longer than
  // kStopPatience, because a shard is being loaded; the process may then end as it is.
  bool Stop();

 private:
  Worker() = default;
  absl::Status MakeBackend(WorkerOptions* options, int threads);
  absl::Status StartFetch(WorkerOptions* options, const KeepOn& keep_on);
  // Told in the log.
  void Introduce(const WorkerOptions& options, int threads, const std::string& architecture) const;
  absl::Status StartMetricsServer(const WorkerOptions& options);
  transport::Dialer* dialer() const;
  absl::Status MakeDialers(const transport::PeerSecurity& security);
  absl::Status Announce(const WorkerOptions& options);

  const SystemClock clock_{};
  std::unique_ptr<kernels::Backend> backend_;
  LinkCollective collective_{&clock_};
  std::unique_ptr<transport::GrpcDialer> dialer_;
  std::unique_ptr<transport::IdentifyingDialer> identifying_dialer_;  // where there is a secret
  std::unique_ptr<ShardFetch> fetch_;                                 // where the model is fetched
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<transport::GrpcPeerServer> server_;
  std::unique_ptr<metrics::Listener> metrics_server_;  // sees the executor
};

}  // namespace tutti::worker
