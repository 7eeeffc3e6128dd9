#include "worker/service/worker_flags.h"

#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/address.h"
#include "base/build_info.h"
#include "base/ports.h"
#include "model/hub_cache.h"
#include "program/group_place.h"
#include "program/machine.h"
#include "program/shared_flags.h"
#include "transport/certificate_folder.h"
#include "transport/private_folder.h"
#include "worker/device_choice.h"
#include "worker/service/device_flags.h"
#include "worker/service/fetch_flags.h"

namespace tutti::worker {
namespace {

constexpr char kFooter[] = R"(Examples:
  # a pipeline of two on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --peer w1
  tutti-worker --model models/demo --worker-id w1 --peer w0
  # one on a machine without the checkpoint
  tutti-worker --worker-id w2 --coordinator node0:50052 --cluster-secret-file secret
  # on one of several machines, with what `tutti certs issue` has made for it
  tutti-worker --model models/demo --coordinator node0 --certs certs

Every option is also read from the environment (TUTTI_MODEL, TUTTI_COORDINATOR, ...) and from
--config FILE.
Exit codes: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for options, files or a model that
cannot be right, 3 when its GPU is lost.)";

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "worker";
}

void AddClusterFlags(FlagSet* set, WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--model",
       .variable = &worker.model_dir,
       .help = "Folder of a HuggingFace checkpoint, or its name in the hub's cache; unset: this "
               "worker's part of it comes from the coordinator"},
      {.names = "--revision", .variable = &worker.revision, .help = model::kRevisionHelp},
      {.names = "--model-cache",
       .variable = &worker.cache_dir,
       .help = "Folder, of this worker alone, that keeps what came from the coordinator; unset: "
               "named by --worker-id in $XDG_CACHE_HOME/tutti/weights or ~/.cache/tutti/weights"},
      {.names = "--draft-model",
       .variable = &worker.draft_dir,
       .help = model::kDraftModelHelp},
      {.names = "--coordinator",
       .variable = &flags->coordinators,
       .help = "Where the coordinator takes workers: host, host:port or unix:/path; with others "
               "that stand by, all of them with commas between; unset: LWS_LEADER_ADDRESS where a "
               "LeaderWorkerSet's controller has set it, or a socket",
       .show_default = true},
      {.names = "--listen",
       .variable = &worker.listen,
       .help = "Where other workers dial this one; unset: a socket named by --worker-id in "
               "$XDG_RUNTIME_DIR/tutti or /tmp/tutti-UID, with --certs :50060",
       .environment = "TUTTI_WORKER_LISTEN",
       .check = IsListenAddress()},
      {.names = "--worker-id",
       .variable = &worker.worker_id,
       .help = "This worker's name, unique in its cluster; unset: wN in pod N of a group of a "
               "LeaderWorkerSet (LWS_WORKER_INDEX), that in its certificate, or this machine's"},
      {.names = "--peer",
       .variable = &flags->peers,
       .help = "NAME=ADDRESS of another worker; may be repeated. NAME alone: at its usual socket "
               "on this machine"},
      {.names = "--peers",
       .variable = &flags->peers_file,
       .help = "File of other workers, a line NAME ADDRESS each"},
      {.names = "--cluster-secret-file",
       .variable = &worker.secret_file,
       .help = "File of the secret that all processes of the cluster know, 32 to 4096 bytes that "
               "its owner alone can read; needed over TCP without certificates"},
      {.names = "--cluster-id",
       .variable = &worker.cluster_id,
       .help = "Must be the coordinator's"},
  });
}

void AddAnnouncedFlags(FlagSet* set, WorkerFlags* flags) {
  set->Add({
      {.names = "--advertise",
       .variable = &flags->worker.advertise,
       .help = "HOST or HOST:PORT under which other workers reach this one, which the coordinator "
               "tells them; unset: this machine's address on the way to the coordinator, and "
               "--listen's port"},
      {.names = "--peer-network",
       .variable = &flags->peer_networks,
       .help = "Network, such as 10.0.0.0/8, in which announced addresses are dialled; may be "
               "repeated. Neither this nor --peer-name: the private network, or the domain, of "
               "this worker's own address; none where --peer or --peers is given",
       .list = FlagList::kRepeated},
      {.names = "--peer-name",
       .variable = &flags->peer_names,
       .help = "Pattern of announced hosts' names that are dialled, such as '*.workers.svc'; may "
               "be repeated",
       .list = FlagList::kRepeated},
  });
}

void AddDeviceFlags(FlagSet* set, WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--memory",
       .variable = &worker.memory_bytes,
       .help = "For weights, KV cache and work, such as 4GiB; unset or 0: 90 % of what is "
               "available",
       .check = IsByteCount()},
      {.names = "--threads",
       .variable = &worker.threads,
       .help = "Compute threads; 0: all CPUs it may use",
       .check = IntegerIn(0, 512),
       .show_default = true},
      {.names = "--device",
       .variable = &worker.device,
       .help = "auto: a GPU that may serve and that no other worker has taken, or else the CPU; "
               "cuda: such a GPU; cuda:N: GPU number N; cpu; or reference (slow and plain, for "
               "tests)",
       .show_default = true},
      {.names = "--share-devices",
       .variable = &flags->share_devices,
       .help = "Take a GPU that another worker has taken, too; give each a --memory"},
      {.names = "--cuda-graphs",
       .variable = &flags->cuda_graphs,
       .help = HelpIn(kWorkerFlags, "--cuda-graphs"),
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--cuda-early-kernels",
       .variable = &flags->cuda_early_kernels,
       .help = HelpIn(kWorkerFlags, "--cuda-early-kernels"),
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--shared-memory-dir",
       .variable = &worker.shared_memory_dir,
       .help = HelpIn(kWorkerFlags, "--shared-memory-dir"),
       .show_default = true},
      {.names = "--device-exchange",
       .variable = &flags->device_exchange,
       .help = HelpIn(kWorkerFlags, "--device-exchange"),
       .check = OneOf("off,machine,network"),
       .show_default = true},
  });
}

void AddSpeedFlags(FlagSet* set, WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--speed",
       .variable = &flags->speed,
       .help = HelpIn(kWorkerFlags, "--speed"),
       .show_default = true},
      {.names = "--speed-file",
       .variable = &worker.speed_file,
       .help = "Where workers of this machine leave what they measured; they do so one after "
               "another, and equal ones once"},
      {.names = "--tune",
       .variable = &flags->tune,
       .help = HelpIn(kWorkerFlags, "--tune"),
       .check = OneOf("auto,off"),
       .show_default = true},
      {.names = "--numerics-class",
       .variable = &worker.numerics_class,
       .help = HelpIn(kWorkerFlags, "--numerics-class")},
  });
}

void AddProcessFlags(FlagSet* set, WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--certs",
       .variable = &flags->certificate_folder,
       .help = "Folder with ca.crt, tls.crt and tls.key, as `tutti certs issue` makes it: the "
               "three of the next that are not given"},
      {.names = "--tls-cert",
       .variable = &worker.tls.certificate,
       .help = "PEM certificate of this worker"},
      {.names = "--tls-key", .variable = &worker.tls.key, .help = "PEM key of that certificate"},
      {.names = "--tls-ca",
       .variable = &worker.tls.authority,
       .help = "PEM authority that signed the peers'"},
      {.names = "--metrics",
       .variable = &flags->worker.metrics_listen,
       .help = "Serve /metrics for Prometheus, and /healthz, at this address and port, over plain "
               "HTTP to everybody who reaches it; unset: nowhere",
       .environment = "TUTTI_WORKER_METRICS"},
  });
  AddDaemonFlags("Seconds a worker that is told to stop serves what runs; told twice, it stops",
                 set, &flags->daemon);
}

}  // namespace

void AddWorkerFlags(FlagSet* set, WorkerFlags* flags) {
  flags->worker.device = "auto";
  flags->coordinators = PlaceInGroup().leader;
  if (flags->coordinators.empty()) {
    flags->coordinators = absl::StrCat("unix:", transport::RuntimeFolder(), "/coordinator.sock");
  }
  set->AddVersion(BuildStamp());
  set->AddReport("--list-devices", "Say as JSON which GPUs there are and which may serve, and end",
                 [] { return DeviceReport(VisibleGpus()); });
  set->ReadEnvironment(kEnvironmentPrefix);
  set->AddFile("Read options from this file (TOML; the keys are the options without --)");
  set->AddFooter(kFooter);
  AddClusterFlags(set, flags);
  AddAnnouncedFlags(set, flags);
  AddDeviceFlags(set, flags);
  AddSpeedFlags(set, flags);
  AddProcessFlags(set, flags);
}

namespace {

kernels::DeviceExchangeScope ScopeNamed(std::string_view name) {
  if (name == "off") return kernels::DeviceExchangeScope::kOff;
  return name == "network" ? kernels::DeviceExchangeScope::kNetwork
                           : kernels::DeviceExchangeScope::kMachine;
}

// The socket where a worker listens on this machine unless it is told otherwise.
std::string UsualSocket(const std::string& worker_id) {
  return absl::StrCat("unix:", transport::RuntimeFolder(), "/worker-", worker_id, ".sock");
}

absl::Status ResolveCoordinators(WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  worker.coordinators = absl::StrSplit(flags->coordinators, ',', absl::SkipWhitespace());
  if (worker.coordinators.empty() || worker.coordinators.size() > kCoordinatorsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--coordinator \"", flags->coordinators,
                                                   "\": expected 1 to ", kCoordinatorsMax,
                                                   " addresses with commas between"));
  }
  for (std::string& address : worker.coordinators) {
    address = WithUsualPort(address, kPeerPort);
    TUTTI_RETURN_IF_ERROR(Annotate(CheckAddress(address, AddressUse::kDial), "--coordinator"));
  }
  return absl::OkStatus();
}

// The worker's name, and where it listens.
absl::Status ResolveName(WorkerFlags* flags) {
  WorkerOptions& worker = flags->worker;
  TUTTI_RETURN_IF_ERROR(
      Annotate(transport::FillFromFolder(flags->certificate_folder, &worker.tls), "--certs"));
  // All pods of such a group have one certificate, which names all their workers.
  const std::string index = PlaceInGroup().index;
  if (worker.worker_id.empty() && !index.empty()) worker.worker_id = absl::StrCat("w", index);
  if (worker.worker_id.empty() && worker.tls.any()) {
    TUTTI_ASSIGN_OR_RETURN(worker.worker_id,
                           transport::NameOfCertificate(worker.tls, transport::Role::kWorker));
  }
  if (worker.worker_id.empty()) worker.worker_id = HostName();
  if (!worker.listen.empty()) return absl::OkStatus();
  worker.listen = flags->certificate_folder.empty() ? UsualSocket(worker.worker_id)
                                                    : absl::StrCat(":", kWorkerPort);
  return absl::OkStatus();
}

absl::Status ResolvePeers(WorkerFlags* flags) {
  PeerRules& rules = flags->worker.peers;
  for (std::string peer : flags->peers) {
    if (peer.find('=') == std::string::npos) peer = absl::StrCat(peer, "=", UsualSocket(peer));
    TUTTI_RETURN_IF_ERROR(Annotate(rules.table.Add(peer), "--peer"));
  }
  if (!flags->peers_file.empty()) {
    TUTTI_RETURN_IF_ERROR(Annotate(rules.table.AddFile(flags->peers_file), "--peers"));
  }
  for (const std::string& network : flags->peer_networks) {
    TUTTI_RETURN_IF_ERROR(Annotate(rules.policy.AddNetwork(network), "--peer-network"));
  }
  for (const std::string& name : flags->peer_names) {
    TUTTI_RETURN_IF_ERROR(Annotate(rules.policy.AddName(name), "--peer-name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ResolveWorkerFlags(WorkerFlags* flags) {
  TUTTI_RETURN_IF_ERROR(ResolveCoordinators(flags));
  TUTTI_RETURN_IF_ERROR(ResolveName(flags));
  TUTTI_RETURN_IF_ERROR(ResolveModel(&flags->worker));
  TUTTI_RETURN_IF_ERROR(ResolvePeers(flags));
  flags->worker.device_exchange = ScopeNamed(flags->device_exchange);
  flags->worker.cuda_graphs = flags->cuda_graphs == "on";
  flags->worker.cuda_early_kernels = flags->cuda_early_kernels == "on";
  flags->worker.tune_kernels = flags->tune == "auto";
  flags->worker.measure_speed = flags->speed == "auto";
  if (flags->speed != "auto" && flags->speed != "off") {
    auto speed = ParseSpeed(flags->speed);
    if (!speed.ok()) return Annotate(speed.status(), "--speed");
    flags->worker.speed = *speed;
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
