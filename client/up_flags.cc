#include "client/up_flags.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/byte_size.h"
#include "model/config_json.h"
#include "model/model_folder.h"
#include "placement/layout_flags.h"
#include "program/machine.h"

namespace tutti::client {
namespace {

// Flags that the programs started have too, under the same name: passed on when they are given.
struct PassedOn {
  const char* name;
  const char* help;
  bool to_workers;  // else to the coordinator
};
constexpr PassedOn kPassedOn[] = {
    {"--pipeline-parallel-size", "Stages of a pipeline; unset: as many as its workers make", false},
    {"--tensor-parallel-size", "Ranks each layer is split over: 1, 2, 4 or 8", false},
    {"--expert-split", "What ranks share of experts: width, or expert: whole ones", false},
    {"--layout", "auto: stages, ranks and pipelines are chosen unless given", false},
    {"--device-map", "auto, balanced, balanced_low_0, sequential, or a file of layers or modules",
     false},
    {"--max-memory", "What of each worker may be used: 0=2GiB,1=4GiB; others are left out", false},
    {"--min-workers", "Form nothing before so many have joined; unset: all of them", false},
    {"--block-size", "KV slots per block", false},
    {"--max-batch-tokens", "Rows of the largest step", false},
    {"--chunk-tokens", "Rows of one prompt in a step at most; 0: all that a step has", false},
    {"--itl-target", "Milliseconds that prompts may keep answers waiting; 0: any time", false},
    {"--max-num-seqs", "Sequences running at once", false},
    {"--max-model-len", "Longest sequence", false},
    {"--max-waiting", "Requests that may wait; beyond it they are refused", false},
    {"--max-wait", "Seconds that one may be expected to wait; who would wait longer is refused",
     false},
    {"--served-model-name", "The model's name for clients; unset: the folder's", false},
    {"--public-role", "client, or gateway: callers may name tenants and hurry", false},
    {"--lease-ms", "A worker without progress for so long is lost", false},
    {"--recovery-timeout", "Seconds that requests wait for a pipeline in the place of one lost",
     false},
    {"--reform-after", "Seconds after which a pipeline forms of the workers that are left", false},
    {"--partial-recompute", "on, or off: all stages compute again when one is lost", false},
    {"--kept-rows", "Memory of each worker for rows that it has sent on; unset: what is left",
     false},
    {"--cuda-graphs", "on, or off: every kernel of a GPU starts by itself", true},
    {"--cuda-early-kernels",
     "on, or off: no kernel of a GPU begins before the one before has ended", true},
    {"--speed", "auto: measured at start; off; or told, 20GB/s@100Gflop/s", true},
    {"--tune", "auto: kernels are tuned to the processor at start; off", true},
    {"--shared-memory-dir", "Where ranks of a stage exchange; empty: over their links", true},
    {"--device-exchange", "Whose GPUs exchange directly: off, machine or network", true},
    {"--numerics-class", "Compute in this class, and in no other", true},
};
// Flags passed on to the gateway.
constexpr PassedOn kToGateway[] = {
    {"--api-keys", "File of the keys of those who may call; an outside --http or --grpc needs one",
     false},
    {"--tool-parser", "How the model writes calls of functions; auto: by its chat template", false},
    {"--reasoning-parser", "How it marks its reasoning; auto: by its chat template", false},
};
// Flags passed on to the gateway and the coordinator.
constexpr PassedOn kOfTraces[] = {
    {"--traces", "Append spans of requests to this file, as OTLP's JSON", false},
    {"--otlp-endpoint", "Send them to this collector, such as http://127.0.0.1:4318", false},
};

void AddClusterFlags(FlagSet* set, UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  set->Add({
      {.names = "--model",
       .variable = &cluster.model,
       .help = "Folder of a HuggingFace checkpoint",
       .required = true},
      {.names = "-w,--workers",
       .variable = &cluster.workers,
       .help = "Worker processes; unset: one for each GPU that may serve, or one on the CPU",
       .check = IntegerIn(1, kLocalWorkersMax)},
      {.names = "--device",
       .variable = &flags->device,
       .help = "auto: the GPUs that may serve, or else the CPU; cuda: those GPUs, w0 cuda:0, w1\n"
               "cuda:1, ...; cuda:N: one of them; cpu; or reference",
       .show_default = true},
      {.names = "--share-devices",
       .variable = &flags->share_devices,
       .help = "Workers may share GPUs, and their memory, where there are fewer"},
      {.names = "--pipelines",
       .variable = &flags->pipelines,
       .help = "Copies of the model that the workers are shared out over, or auto; unset: 1"},
      {.names = "--listen",
       .variable = &cluster.listen,
       .help = "Where clients connect; port 0: any free one",
       .check = IsListenAddress(),
       .show_default = true},
      {.names = "--http",
       .variable = &cluster.http,
       .help = "Where OpenAI's HTTP API is served, or at the next free port; off: nowhere",
       .show_default = true},
      {.names = "--grpc",
       .variable = &cluster.grpc,
       .help = "Where the gateway serves gRPC (our API, KServe's and VllmEngine's), such as\n"
               "127.0.0.1:8001; port 0: any free one; unset: nowhere",
       .check = IsListenAddress()},
      {.names = "--threads-per-worker",
       .variable = &cluster.threads_per_worker,
       .help = "Compute threads; 0: the CPUs divided by the workers",
       .check = IntegerIn(0, 1024),
       .show_default = true},
      {.names = "--memory-per-worker",
       .variable = &flags->memory_per_worker,
       .help = "Memory for weights, KV cache and work; unset: 80 % of what is available,\n"
               "divided by the workers, or 90 % of what its GPU has free",
       .check = IsSize()},
      {.names = "--kv-tokens",
       .variable = &flags->kv_tokens,
       .help = "KV room in tokens; 0: as much as memory allows",
       .check = NotNegative(),
       .show_default = true},
  });
}

void AddRunFlags(FlagSet* set, UpFlags* flags) {
  set->Add({
      {.names = "--log-dir",
       .variable = &flags->cluster.log_dir,
       .help = "Keep the processes' logs here"},
      {.names = "--log-level",
       .help = "Of all processes: trace, debug, info, warn, error",
       .check = OneOf("trace,debug,info,warn,error"),
       .default_text = "info"},
      {.names = "--log-format",
       .help = "Of all processes: text, or json for an object a line",
       .check = OneOf("text,json"),
       .default_text = "text"},
      {.names = "--exec",
       .variable = &flags->exec,
       .help = "Once serving, run this shell command, then end everything"},
      {.names = "--ready-file",
       .variable = &flags->ready_file,
       .help = "Once serving, write {\"address\": ..., \"admin\": ...} to this file"},
      {.names = "-v,--verbose",
       .variable = &flags->verbose,
       .help = "Show the processes' logs as they are written"},
      {.names = "--drain-timeout",
       .variable = &flags->cluster.drain_timeout_s,
       .help = "Seconds running requests get to finish; a second signal ends them",
       .check = NotNegative(),
       .show_default = true},
      {.names = "--mix-numerics",
       .variable = &flags->mix_numerics,
       .help = "Allow workers of different numerics classes"},
  });
}

absl::Status ResolveDevices(const MachineDevices& machine, UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  TUTTI_ASSIGN_OR_RETURN(
      DeviceDeal deal,
      DealDevices({flags->device, cluster.workers, flags->share_devices}, machine));
  cluster.workers = static_cast<int>(deal.devices.size());
  if (cluster.workers > kLocalWorkersMax) {
    return absl::InvalidArgumentError(absl::StrCat(cluster.workers, " GPUs are more than ",
                                                   kLocalWorkersMax,
                                                   " workers; say how many with --workers"));
  }
  cluster.devices = std::move(deal.devices);
  cluster.share_devices = flags->share_devices;
  cluster.memory_per_worker = deal.memory_per_worker;
  flags->gpus = deal.gpus;
  flags->why_cpu = std::move(deal.reason);
  return absl::OkStatus();
}

absl::Status ResolveDefaults(UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  if (!flags->pipelines.empty()) {
    const auto pipelines = placement::ParseSize(flags->pipelines);
    if (!pipelines.ok()) return Annotate(pipelines.status(), "--pipelines");
    if (*pipelines > cluster.workers) {
      return absl::InvalidArgumentError(absl::StrCat("--pipelines ", flags->pipelines,
                                                     ": each needs a worker, and there are ",
                                                     cluster.workers));
    }
  }
  std::error_code error;
  cluster.model = std::filesystem::absolute(cluster.model).string();
  if (cluster.threads_per_worker == 0) {
    cluster.threads_per_worker = std::max(1, CpuCount() / cluster.workers);
  }
  if (flags->memory_per_worker.empty() && !flags->gpus) {
    cluster.memory_per_worker = static_cast<int64_t>(static_cast<double>(AvailableMemoryBytes()) *
                                                     kLocalMemoryShare / cluster.workers);
  } else if (!flags->memory_per_worker.empty()) {
    TUTTI_ASSIGN_OR_RETURN(cluster.memory_per_worker, ParseBytes(flags->memory_per_worker));
  }
  if (!cluster.log_dir.empty()) {
    std::filesystem::create_directories(cluster.log_dir, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat("--log-dir ", cluster.log_dir, ": ",
                                                     error.message(),
                                                     "; choose a folder that can be made"));
    }
  }
  return absl::OkStatus();
}

absl::Status ResolveHttp(UpFlags* flags) {
  std::string& http = flags->cluster.http;
  if (http == "off") http.clear();
  if (http.empty() && !flags->cluster.grpc.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--grpc ", flags->cluster.grpc, ": the gateway serves it, and --http off starts none"));
  }
  if (http.empty() || http.find(':') != std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--http ", http, ": write an address and a port, such as 127.0.0.1:8000, or off"));
}

// GPUs of one machine are near each other: whether their ranks, stages or copies of the model are
// best is the coordinator's to say, unless anything of it is given.
bool ChoosesLayout(const FlagSet& set, const UpFlags& flags) {
  if (!flags.gpus || flags.cluster.workers < 2 || !flags.pipelines.empty()) return false;
  for (const char* flag : {"--pipeline-parallel-size", "--tensor-parallel-size", "--device-map",
                           "--max-memory", "--layout"}) {
    if (set.Given(flag)) return false;
  }
  return true;
}

// The workers are shared out evenly unless told otherwise; empty where a device map says it itself.
std::string DefaultStages(const FlagSet& set, const UpFlags& flags) {
  if (ChoosesLayout(set, flags)) return "";
  for (const char* flag : {"--pipeline-parallel-size", "--device-map", "--layout"}) {
    if (set.Given(flag)) return "";
  }
  int per_stage = 1;
  // Ranks of each stage say how many stages there are; the coordinator reports errors in them.
  if (set.Given("--tensor-parallel-size")) {
    const std::string ranks = set.Text("--tensor-parallel-size");
    if (ranks == "auto") return "auto";
    if (!absl::SimpleAtoi(ranks, &per_stage)) return "";
  }
  int pipelines = 1;
  if (!flags.pipelines.empty() && !absl::SimpleAtoi(flags.pipelines, &pipelines)) return "auto";
  int workers = flags.cluster.workers;  // less those that a limit for others leaves out
  if (set.Given("--max-memory")) {
    const std::string limits = set.Text("--max-memory");
    const std::vector<absl::string_view> limited = absl::StrSplit(limits, ',');
    workers = std::min(workers, static_cast<int>(limited.size()));
  }
  return absl::StrCat(std::max(1, workers / pipelines / std::max(1, per_stage)));
}

// The flags that were given, and those derived from them, as flags of the two programs.
void FillProgramFlags(const FlagSet& set, UpFlags* flags) {
  auto& to_coordinator = flags->cluster.coordinator_flags;
  auto& to_workers = flags->cluster.worker_flags;
  const auto pass_on = [&set](const char* name, std::vector<std::string>* to) {
    if (set.Given(name)) to->insert(to->end(), {name, set.Text(name)});
  };
  for (const PassedOn& passed : kPassedOn) {
    pass_on(passed.name, passed.to_workers ? &to_workers : &to_coordinator);
  }
  auto& to_gateway = flags->cluster.gateway_flags;
  for (const PassedOn& passed : kToGateway) pass_on(passed.name, &to_gateway);
  for (const PassedOn& passed : kOfTraces) {
    pass_on(passed.name, &to_gateway);
    pass_on(passed.name, &to_coordinator);
  }
  if (flags->reasoning_content) to_gateway.push_back("--reasoning-content");
  if (flags->without_keys) to_gateway.push_back("--without-keys");
  if (flags->http_plaintext) to_gateway.push_back("--http-plaintext");
  for (const char* name : {"--log-level", "--log-format"}) pass_on(name, &to_gateway);
  // A class that is not exact serves only where the coordinator is told so.
  pass_on("--numerics-class", &to_coordinator);
  pass_on("--log-level", &to_coordinator);
  pass_on("--log-level", &to_workers);
  pass_on("--log-format", &to_coordinator);
  pass_on("--log-format", &to_workers);
  if (flags->mix_numerics) to_coordinator.push_back("--mix-numerics");
  const std::string grace = absl::StrCat(flags->cluster.drain_timeout_s);
  to_coordinator.insert(to_coordinator.end(), {"--drain-timeout", grace});
  to_workers.insert(to_workers.end(), {"--drain-timeout", grace});
  to_coordinator.insert(to_coordinator.end(), {"--kv-tokens", absl::StrCat(flags->kv_tokens)});
  const bool chosen = ChoosesLayout(set, *flags);
  if (chosen) to_coordinator.insert(to_coordinator.end(), {"--layout", "auto"});
  const bool automatic = chosen || set.Given("--layout");
  to_coordinator.insert(to_coordinator.end(),
                        {"--pipelines", !flags->pipelines.empty() ? flags->pipelines
                                        : automatic               ? "auto"
                                                                  : "1"});
  // All of them are about to join: the order in which they do must not decide anything.
  if (!set.Given("--min-workers")) {
    to_coordinator.insert(to_coordinator.end(),
                          {"--min-workers", absl::StrCat(flags->cluster.workers)});
  }
  const std::string stages = DefaultStages(set, *flags);
  if (!stages.empty()) {
    to_coordinator.insert(to_coordinator.end(), {"--pipeline-parallel-size", stages});
  }
}

}  // namespace

void AddUpFlags(FlagSet* set, UpFlags* flags) {
  flags->cluster.listen = "127.0.0.1:50051";
  flags->cluster.http = "127.0.0.1:8000";
  AddClusterFlags(set, flags);
  AddRunFlags(set, flags);
  const auto add = [set](const auto& all) {
    for (const PassedOn& passed : all) {
      set->Add({{.names = passed.name, .help = passed.help}}, "Passed on");
    }
  };
  add(kPassedOn);
  add(kToGateway);
  set->Add({{.names = "--reasoning-content",
             .variable = &flags->reasoning_content,
             .help = "Reasoning is in reasoning_content too, its older name"},
            {.names = "--without-keys",
             .variable = &flags->without_keys,
             .help = "Callers of other machines need no key at the gateway"},
            {.names = "--http-plaintext",
             .variable = &flags->http_plaintext,
             .help = "An outside --http has no TLS"}},
           "Passed on");
  add(kOfTraces);
}

absl::Status CheckUpModel(const UpFlags& flags) {
  const std::string& model = flags.cluster.model;
  TUTTI_RETURN_IF_ERROR(Annotate(model::CheckModelFolder(model), "--model"));
  return model::LoadModelConfig(model).status();
}

absl::Status ResolveUpFlags(const FlagSet& set, const MachineDevices& machine, UpFlags* flags) {
  TUTTI_RETURN_IF_ERROR(ResolveDevices(machine, flags));
  TUTTI_RETURN_IF_ERROR(ResolveDefaults(flags));
  TUTTI_RETURN_IF_ERROR(ResolveHttp(flags));
  FillProgramFlags(set, flags);
  return absl::OkStatus();
}

}  // namespace tutti::client
