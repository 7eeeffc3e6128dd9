#include "client/up_flags.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/passed_on.h"
#include "model/config_json.h"
#include "model/hub_cache.h"
#include "model/partition.h"
#include "placement/layout_flags.h"
#include "program/machine.h"
#include "program/shared_flags.h"

namespace tutti::client {
namespace {

void AddClusterFlags(FlagSet* set, UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  set->Add({
      {.names = "--model", .variable = &cluster.model, .help = model::kModelHelp, .required = true},
      {.names = "--revision", .variable = &flags->revision, .help = model::kRevisionHelp},
      {.names = "--draft-model", .variable = &flags->draft_model, .help = model::kDraftModelHelp},
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
       .check = IsByteCount()},
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
       .variable = &flags->cluster.drain_timeout,
       .help = "Seconds running requests get to finish; a second signal ends them",
       .check = AnySeconds(),
       .show_default = true},
      {.names = "--mix-numerics",
       .variable = &flags->mix_numerics,
       .help = "Allow workers of different numerics classes"},
  });
}

// Sizes that this model does not take, whatever the workers; 0 ("auto") is the coordinator's.
absl::Status CheckSizes(const placement::RankSizes& ranks, const model::ModelConfig& config) {
  if (ranks.num_ranks > 0) {
    TUTTI_RETURN_IF_ERROR(model::CheckRanks(config, ranks.num_ranks));
  }
  for (const int32_t size : ranks.stage_ranks) {
    TUTTI_RETURN_IF_ERROR(model::CheckRanks(config, size));
  }
  return absl::OkStatus();
}

// The workers that the sizes need at least; 1 where they are left to the coordinator.
absl::StatusOr<int> WorkersNeeded(const FlagSet& set, const UpFlags& flags) {
  const auto size_of = [&set](const char* flag) -> absl::StatusOr<int> {
    if (!set.Given(flag)) return 1;
    const auto size = placement::ParseSize(set.Text(flag));
    if (!size.ok()) return Annotate(size.status(), flag);
    return std::max<int>(1, static_cast<int>(*size));
  };
  placement::RankSizes ranks;
  if (set.Given("--tensor-parallel-size")) {
    const auto parsed = placement::ParseRanks(set.Text("--tensor-parallel-size"));
    if (!parsed.ok()) return Annotate(parsed.status(), "--tensor-parallel-size");
    ranks = *parsed;
  }
  if (flags.config.has_value()) {
    model::ModelConfig config = *flags.config;
    config.whole_experts = config.has_experts() && set.Given("--expert-split") &&
                           set.Text("--expert-split") == "expert";
    TUTTI_RETURN_IF_ERROR(CheckSizes(ranks, config));
  }
  TUTTI_ASSIGN_OR_RETURN(const int stages, size_of("--pipeline-parallel-size"));
  TUTTI_ASSIGN_OR_RETURN(const int pipelines, size_of("--pipelines"));
  int of_one = std::max<int>(1, ranks.num_ranks) * stages;
  if (!ranks.stage_ranks.empty()) {
    of_one = std::accumulate(ranks.stage_ranks.begin(), ranks.stage_ranks.end(), 0);
  }
  // Sizes that no machine has are the coordinator's to refuse.
  return std::clamp(of_one, 1, kLocalWorkersMax) * std::min(pipelines, kLocalWorkersMax);
}

absl::Status ResolveDevices(const FlagSet& set, const MachineDevices& machine, UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  TUTTI_ASSIGN_OR_RETURN(const int needed, WorkersNeeded(set, *flags));
  TUTTI_ASSIGN_OR_RETURN(
      DeviceDeal deal,
      DealDevices({flags->device, cluster.workers, flags->share_devices}, machine));
  const bool is_given = cluster.workers > 0;
  if (!is_given && !deal.gpus && static_cast<int>(deal.devices.size()) < needed) {
    TUTTI_ASSIGN_OR_RETURN(deal,
                           DealDevices({flags->device, needed, flags->share_devices}, machine));
  }
  // Who says how many must join may have others join from elsewhere.
  if (static_cast<int>(deal.devices.size()) < needed && !set.Given("--min-workers")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the stages, ranks and pipelines that are given need ", needed, " workers, and there ",
        deal.devices.size() == 1 ? "is " : "are ", deal.devices.size(),
        is_given ? absl::StrCat("; give --workers ", needed)
                 : "; give fewer, or --workers with --share-devices or --device cpu"));
  }
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

absl::Status ResolveDefaults(const FlagSet& set, UpFlags* flags) {
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
  if (set.Given("--memory-per-worker")) {
    cluster.memory_per_worker = flags->memory_per_worker;
  } else if (!flags->gpus) {
    cluster.memory_per_worker = static_cast<int64_t>(static_cast<double>(AvailableMemoryBytes()) *
                                                     kLocalMemoryShare / cluster.workers);
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
  auto& to_coordinator = flags->cluster.coordinator.arguments;
  auto& to_workers = flags->cluster.each_worker.arguments;
  auto& to_gateway = flags->cluster.gateway.arguments;
  const auto pass_on = [&set](absl::string_view name, std::vector<std::string>* to) {
    if (set.Given(name)) to->insert(to->end(), {std::string(name), set.Text(name)});
  };
  const auto pass_all = [&](const auto& table, std::vector<std::string>* to) {
    for (const SharedFlag& flag : table) {
      if (!flag.is_switch) pass_on(flag.name, to);
    }
  };
  if (!flags->draft_model.empty()) {
    const std::string draft = std::filesystem::absolute(flags->draft_model).string();
    for (auto* const to : {&to_coordinator, &to_workers}) {
      to->insert(to->end(), {"--draft-model", draft});
    }
  }
  pass_all(kCoordinatorFlags, &to_coordinator);
  pass_all(kTraceFlags, &to_coordinator);
  pass_all(kWorkerFlags, &to_workers);
  pass_all(kGatewayFlags, &to_gateway);
  pass_all(kTraceFlags, &to_gateway);
  if (flags->reasoning_content) to_gateway.push_back("--reasoning-content");
  for (auto* const to : {&to_coordinator, &to_workers, &to_gateway}) {
    pass_on("--log-level", to);
    pass_on("--log-format", to);
  }
  // A class that is not exact serves only where the coordinator is told so.
  pass_on("--numerics-class", &to_coordinator);
  if (flags->mix_numerics) to_coordinator.push_back("--mix-numerics");
  const std::string grace = absl::StrCat(Seconds(flags->cluster.drain_timeout));
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

// With what is passed on where the flag is not given.
std::string UpHelp(const SharedFlag& flag) {
  const bool stages = flag.name == "--pipeline-parallel-size";
  const bool joined = flag.name == "--min-workers";
  return absl::StrCat(flag.help, stages   ? "; unset: as many as the workers make"
                                 : joined ? "; unset: all of them"
                                          : "");
}

}  // namespace

void AddUpFlags(FlagSet* set, UpFlags* flags) {
  flags->cluster.listen = "127.0.0.1:50051";
  flags->cluster.http = "127.0.0.1:8000";
  AddClusterFlags(set, flags);
  AddRunFlags(set, flags);
  const auto add = [&](const auto& table) {
    for (const SharedFlag& flag : table) {
      const FlagVariable variable =
          flag.is_switch ? FlagVariable(&flags->reasoning_content) : FlagVariable();
      set->Add({{.names = flag.name, .variable = variable, .help = UpHelp(flag)}}, "Passed on");
    }
  };
  add(kCoordinatorFlags);
  add(kWorkerFlags);
  add(kGatewayFlags);
  add(kTraceFlags);
  set->TakeOthers();
}

absl::Status FindUpModel(UpFlags* flags) {
  std::string& model = flags->cluster.model;
  TUTTI_ASSIGN_OR_RETURN(model, model::FindModel(model, flags->revision));
  TUTTI_ASSIGN_OR_RETURN(flags->config, model::LoadModelConfig(model));
  if (flags->draft_model.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(flags->draft_model,
                         model::FindModel(flags->draft_model, "", "--draft-model"));
  return absl::OkStatus();
}

absl::Status PassOnOthers(const FlagSet& set, UpFlags* flags) {
  const std::vector<std::string> others = set.Others();
  const std::vector<std::string> variables = VariablesForPrograms(set.Variables());
  if (others.empty() && variables.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const std::vector<ProgramOptions> programs,
                         AskForOptions(!flags->cluster.http.empty()));
  std::string unknown;
  auto passed = PassOn(others, variables, programs, &unknown);
  if (!unknown.empty()) return absl::InvalidArgumentError(set.ExplainOther(unknown));
  TUTTI_RETURN_IF_ERROR(passed.status());
  LocalClusterOptions& cluster = flags->cluster;
  const auto add = [](const ProgramExtras& from, ProgramExtras* to) {
    to->arguments.insert(to->arguments.end(), from.arguments.begin(), from.arguments.end());
    to->environment.insert(to->environment.end(), from.environment.begin(), from.environment.end());
  };
  add(passed->gateway, &cluster.gateway);
  add(passed->coordinator, &cluster.coordinator);
  add(passed->workers, &cluster.each_worker);
  flags->notices = std::move(passed->notices);
  if (cluster.http.empty() && !passed->gateway.arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        passed->gateway.arguments.front(), " is the gateway's, and --http off starts none"));
  }
  return absl::OkStatus();
}

absl::Status ResolveUpFlags(const FlagSet& set, const MachineDevices& machine, UpFlags* flags) {
  TUTTI_RETURN_IF_ERROR(ResolveDevices(set, machine, flags));
  TUTTI_RETURN_IF_ERROR(ResolveDefaults(set, flags));
  TUTTI_RETURN_IF_ERROR(ResolveHttp(flags));
  FillProgramFlags(set, flags);
  return absl::OkStatus();
}

}  // namespace tutti::client
