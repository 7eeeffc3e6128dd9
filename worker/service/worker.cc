#include "worker/service/worker.h"

#include <functional>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/byte_size.h"
#include "base/numerics_revision.h"
#include "base/protocol.h"
#include "kernels/gpu_memory.h"
#include "metrics/process_metrics.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "model/hub_cache.h"
#include "model/partition.h"
#include "program/machine.h"
#include "spdlog/spdlog.h"
#include "transport/private_folder.h"
#include "worker/class_offers.h"
#include "worker/kernel_tuner.h"
#include "worker/limits.h"
#include "worker/transformer.h"

namespace tutti::worker {
namespace {

v1::Hello MakeHello(const WorkerOptions& options, const kernels::Backend& backend, int threads,
                    const std::string& fingerprint) {
  v1::Hello hello;
  hello.set_protocol_version(kPeerProtocolVersion);
  hello.set_cluster_id(options.cluster_id);
  hello.set_worker_id(options.worker_id);
  hello.set_build(std::string(BuildStamp()));
  hello.set_model_fingerprint(fingerprint);
  hello.set_device(backend.name() == "reference" ? "reference" : backend.device().ToString());
  hello.set_device_kind(backend.device().kind == DeviceKind::kCuda ? v1::DEVICE_KIND_CUDA
                                                                   : v1::DEVICE_KIND_CPU);
  hello.set_memory_bytes(options.memory_bytes);
  hello.set_threads(threads);
  return hello;
}

// The speed that the machine's file has, or that `measure` finds: in the class that the backend
// computes in, measured `how`. One that cannot be measured stays unknown: it is for the layout, and
// the choice of a class, only.
MeasuredSpeed FindSpeed(const WorkerOptions& options, kernels::Backend* backend, int threads,
                        DType dtype, const std::string& how,
                        const std::function<absl::StatusOr<MeasuredSpeed>()>& measure,
                        const KeepOn& keep_on) {
  const std::string key =
      absl::StrCat(backend->device().ToString(), "/", std::string(backend->numerics_class()), how,
                   "/", std::string(DTypeName(dtype)), "/", threads);
  const auto speed = SharedSpeed(options.speed_file, key, measure, keep_on);
  if (!speed.ok()) {
    spdlog::warn("speed not measured: {}", std::string(speed.status().message()));
    return {};
  }
  spdlog::info("{}: reads {}/s, computes {:.1f} Gflop/s", backend->numerics_class(),
               FormatBytes(static_cast<int64_t>(speed->read_bytes_per_second)),
               speed->flops_per_second * 1e-9);
  if (speed->others_share > 0) {
    spdlog::warn(
        "that speed was measured while others had {:.0f} % of the machine's processors, and layers "
        "may go by it: say it with --speed, or start this worker again when the machine is quiet",
        speed->others_share * 100);
  }
  return *speed;
}

// The classes of the backend, and its speed in each.
void OfferMeasured(const WorkerOptions& options, kernels::Backend* backend, DType dtype,
                   const KeepOn& keep_on, v1::Hello* hello) {
  const auto threads = static_cast<int>(hello->threads());
  const bool measures = options.measure_speed && !options.speed.known();
  const std::string best_class(backend->numerics_class());
  const MeasuredSpeed best = measures ? FindSpeed(
                                            options, backend, threads, dtype, "",
                                            [&] { return MeasureSpeed(backend, dtype); }, keep_on)
                                      : options.speed;
  const auto measure = [&] {
    // The speed of the best class may be an operator's word, which says nothing of the others.
    if (!measures || !best.known()) return MeasuredSpeed();
    return FindSpeed(
        options, backend, threads, dtype, "/beside-" + best_class,
        [&] { return SpeedFrom(best_class, best, backend, threads, dtype); }, keep_on);
  };
  OfferClasses(backend, best, measure, hello);
}

// Called before the speed is measured, which depends on it.
void TuneKernels(const WorkerOptions& options, const model::ModelConfig& config,
                 kernels::Backend* backend, const KeepOn& keep_on) {
  const model::ShardBytes bytes =
      model::ComputeShardBytes(config, model::WholeModel(config), /*ranks=*/1, /*rank=*/0);
  if (!options.tune_kernels || bytes.layers < kTunedModelBytesMin) return;
  const std::string line = TuneAtStart(backend, config.dtype, options.speed_file, keep_on);
  if (!line.empty()) spdlog::info("{}", line);
}

// Backends in the host's memory have none.
DeviceLinks::Options DeviceLinksOf(kernels::Backend* backend, const WorkerOptions& options) {
  DeviceLinks::Options links = {.scope = options.device_exchange};
  if (backend->device() == kernels::Device()) return links;
  links.new_link = [backend] { return backend->NewDeviceLink(); };
  return links;
}

// INVALID_ARGUMENT when two are given the same address: nobody listens there as both.
absl::Status CheckDistinct(const WorkerOptions& options) {
  std::map<std::string, std::string> listeners;
  for (const std::string& address : options.coordinators) {
    if (listeners.emplace(address, "the coordinator").second) continue;
    return absl::InvalidArgumentError(absl::StrCat("--coordinator: ", address, " is given twice"));
  }
  for (const auto& [name, address] : options.peers.table.addresses()) {
    if (listeners.emplace(address, name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("--peer ", name, "=", address, ": ",
                                                   listeners[address], " has the same address"));
  }
  return absl::OkStatus();
}

// The proofs that this worker and its peers give each other. FAILED_PRECONDITION names the address
// at which none would be asked for.
absl::StatusOr<transport::PeerSecurity> OpenSecurity(const WorkerOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(
      transport::PeerSecurity security,
      transport::PeerSecurity::Open({options.tls, options.secret_file},
                                    {transport::Role::kWorker, options.worker_id}));
  TUTTI_RETURN_IF_ERROR(security.CheckAddress("--listen", options.listen));
  for (const std::string& address : options.coordinators) {
    TUTTI_RETURN_IF_ERROR(security.CheckAddress("--coordinator", address));
  }
  for (const auto& [name, address] : options.peers.table.addresses()) {
    TUTTI_RETURN_IF_ERROR(security.CheckAddress(absl::StrCat("--peer ", name), address));
  }
  return security;
}

absl::Status FindModels(WorkerOptions* options) {
  if (!options->model_dir.empty()) {
    TUTTI_ASSIGN_OR_RETURN(options->model_dir,
                           model::FindModel(options->model_dir, options->revision));
  }
  if (options->draft_dir.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(options->draft_dir,
                         model::FindModel(options->draft_dir, "", "--draft-model"));
  return absl::OkStatus();
}

// Null where the worker has none. Errors name --draft-model.
absl::StatusOr<std::shared_ptr<const DraftSource>> OpenDraft(const WorkerOptions& options,
                                                             v1::Hello* hello) {
  if (options.draft_dir.empty()) return nullptr;
  auto config = model::LoadModelConfig(options.draft_dir);
  if (!config.ok()) return Annotate(config.status(), "--draft-model");
  auto fingerprint = model::ModelFingerprint(options.draft_dir);
  if (!fingerprint.ok()) return Annotate(fingerprint.status(), "--draft-model");
  hello->set_draft_fingerprint(*fingerprint);
  spdlog::info("draft model: {} ({})", options.draft_dir, config->architecture);
  return std::make_shared<DraftSource>(
      DraftSource{.dir = options.draft_dir, .config = *std::move(config)});
}

}  // namespace

absl::Status Worker::MakeDialers(const transport::PeerSecurity& security) {
  TUTTI_ASSIGN_OR_RETURN(dialer_, transport::GrpcDialer::Create({.tls = security.tls()}));
  if (security.secret() == nullptr) return absl::OkStatus();
  identifying_dialer_ =
      std::make_unique<transport::IdentifyingDialer>(dialer_.get(), security.secret());
  return absl::OkStatus();
}

// Names of coordinators begin to be resolved.
absl::Status Worker::Announce(const WorkerOptions& options) {
  absl::StatusOr<Announcer> announcer = Announcer::Create(options.advertise, address());
  if (!announcer.ok()) return Annotate(announcer.status(), "--advertise");
  for (const std::string& coordinator : options.coordinators) {
    (void)announcer->AddressFor(coordinator);
  }
  executor_->Announce(*std::move(announcer));
  return absl::OkStatus();
}

transport::Dialer* Worker::dialer() const {
  if (identifying_dialer_ != nullptr) return identifying_dialer_.get();
  return dialer_.get();
}

absl::Status Worker::MakeBackend(WorkerOptions* options, int threads) {
  auto backend = kernels::CreateBackend(options->device,
                                        {.num_threads = threads,
                                         .numerics_class = BackendClass(options->numerics_class),
                                         .graphs = options->cuda_graphs,
                                         .early_kernels = options->cuda_early_kernels,
                                         .on_lost_device = options->on_lost_device});
  if (!backend.ok()) {
    return Annotate(backend.status(),
                    options->numerics_class.empty() ? "--device" : "--device, --numerics-class");
  }
  backend_ = *std::move(backend);
  // The memory free beside CUDA's context and kernels, which are there by now.
  if (options->memory_bytes == 0)
    options->memory_bytes = kernels::GpuOfferOf(backend_->FreeDeviceBytes());
  return absl::OkStatus();
}

// From here on the folder of what was fetched is the model's.
absl::Status Worker::StartFetch(WorkerOptions* options, const KeepOn& keep_on) {
  if (!options->model_dir.empty()) return absl::OkStatus();
  v1::Hello hello;
  hello.set_protocol_version(kPeerProtocolVersion);
  hello.set_cluster_id(options->cluster_id);
  hello.set_worker_id(options->worker_id);
  hello.set_build(std::string(BuildStamp()));
  spdlog::info("no --model: the checkpoint is the coordinator's, kept in {}", options->cache_dir);
  TUTTI_ASSIGN_OR_RETURN(fetch_, ShardFetch::Open(options->cache_dir,
                                                  {.dialer = dialer(),
                                                   .addresses = options->coordinators,
                                                   .hello = std::move(hello),
                                                   .clock = &clock_},
                                                  keep_on));
  options->model_dir = fetch_->folder();
  return absl::OkStatus();
}

void Worker::Introduce(const WorkerOptions& options, int threads,
                       const std::string& architecture) const {
  spdlog::info("worker {} ({}, {} threads, {}, {}), build {}, listens on {}", options.worker_id,
               backend_->numerics_class(), threads, FormatBytes(options.memory_bytes), architecture,
               BuildStamp(), server_->address());
  if (const std::string_view remark = backend_->remark(); !remark.empty()) {
    spdlog::info("{}: {}", backend_->device().ToString(), remark);
  }
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& given,
                                                      const KeepOn& keep_on) {
  WorkerOptions options = given;
  if (!IsWorkerId(options.worker_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--worker-id \"", absl::Utf8SafeCEscape(options.worker_id),
                     "\" does not match [A-Za-z0-9._-]{1,128}; choose another name"));
  }
  TUTTI_RETURN_IF_ERROR(transport::CheckMethodTable());
  TUTTI_RETURN_IF_ERROR(CheckDistinct(options));
  TUTTI_RETURN_IF_ERROR(FindModels(&options));
  TUTTI_ASSIGN_OR_RETURN(const transport::PeerSecurity security, OpenSecurity(options));
  options.peers.peers_are_proved = security.tls().any() || security.secret() != nullptr;
  std::unique_ptr<Worker> worker(new Worker);
  const int threads = options.threads > 0 ? options.threads : CpuCount();
  TUTTI_RETURN_IF_ERROR(worker->MakeBackend(&options, threads));
  // All that is wrong with the options has been said by now: this may wait.
  TUTTI_RETURN_IF_ERROR(worker->MakeDialers(security));
  TUTTI_RETURN_IF_ERROR(worker->StartFetch(&options, keep_on));
  TUTTI_ASSIGN_OR_RETURN(const model::ModelConfig config,
                         model::LoadModelConfig(options.model_dir));
  TuneKernels(options, config, worker->backend_.get(), keep_on);
  // A part of a checkpoint cannot say whose it is.
  absl::StatusOr<std::string> fingerprint = worker->fetch_ == nullptr
                                                ? model::ModelFingerprint(options.model_dir)
                                                : worker->fetch_->fingerprint();
  TUTTI_RETURN_IF_ERROR(fingerprint.status());
  v1::Hello hello = MakeHello(options, *worker->backend_, threads, *fingerprint);
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<const DraftSource> draft, OpenDraft(options, &hello));
  OfferMeasured(options, worker->backend_.get(), config.dtype, keep_on, &hello);
  // Others may have measured before it for long.
  TUTTI_RETURN_IF_ERROR(keep_on());
  const auto* const work_meter = worker->backend_->work_meter();
  worker->executor_ = std::make_unique<Executor>(
      Executor::Options{
          .coordinators = options.coordinators,
          .hello = std::move(hello),
          .links = {.peers = options.peers,
                    .collective = &worker->collective_,
                    .devices = {.devices = worker->backend_->device_exchange(),
                                .scope = options.device_exchange},
                    .device_links = DeviceLinksOf(worker->backend_.get(), options),
                    .memory_folder = options.shared_memory_dir},
          .factory = InClassOfShard(worker->backend_.get(),
                                    MakeTransformerFactory({.dir = options.model_dir,
                                                            .config = config,
                                                            .backend = worker->backend_.get(),
                                                            .memory_bytes = options.memory_bytes,
                                                            .collective = &worker->collective_,
                                                            .draft = std::move(draft)})),
          .fetch = worker->fetch_.get(),
          .work_meter = work_meter,
          .gpu = options.gpu},
      worker->dialer(), &worker->clock_);
  TUTTI_RETURN_IF_ERROR(transport::ClaimSocket(options.listen));
  TUTTI_ASSIGN_OR_RETURN(
      worker->server_,
      transport::GrpcPeerServer::Start(
          {.address = options.listen, .tls = security.tls(), .rules = security.rules()},
          worker->executor_->acceptor()));
  worker->Introduce(options, threads, config.architecture);
  TUTTI_RETURN_IF_ERROR(worker->StartMetricsServer(options));
  TUTTI_RETURN_IF_ERROR(worker->Announce(options));
  worker->executor_->Start();
  return worker;
}

absl::Status Worker::StartMetricsServer(const WorkerOptions& options) {
  if (options.metrics_listen.empty()) return absl::OkStatus();
  const auto scrape = [executor = executor_.get(), certificate = options.tls.certificate] {
    metrics::Exposition text;
    metrics::WriteProcess("worker", &text);
    metrics::WriteCertificates({{"peer", certificate}}, &text);
    executor->WriteMetrics(&text);
    return text.Release();
  };
  TUTTI_ASSIGN_OR_RETURN(metrics_server_, metrics::Listener::Start(options.metrics_listen, scrape));
  spdlog::info("metrics at http://{}/metrics", metrics_server_->address());
  return absl::OkStatus();
}

Worker::~Worker() {
  metrics_server_.reset();
  if (executor_ == nullptr) return;
  executor_->RequestStop();
  executor_.reset();
}

void Worker::Leave(Duration grace) {
  if (executor_->loading()) return executor_->RequestStop();
  executor_->RequestLeave(grace);
}

bool Worker::Stop() {
  executor_->RequestStop();
  if (!executor_->WaitStopped(kStopPatience)) return false;
  metrics_server_.reset();
  executor_.reset();
  server_->Stop();
  if (const kernels::LaunchCounts counts = backend_->launch_counts(); counts.kernels > 0) {
    spdlog::info("{} kernels, {} of them started by {} starts of {} CUDA graphs{}", counts.kernels,
                 counts.kernels_by_graphs, counts.graph_starts, counts.graphs_made,
                 counts.graph_error.empty() ? "" : ", until: " + counts.graph_error);
  }
  return true;
}

}  // namespace tutti::worker
