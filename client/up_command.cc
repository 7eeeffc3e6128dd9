// tutti up: a whole cluster on this machine in one command.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/machine.h"
#include "client/child_process.h"
#include "client/command.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/local_cluster.h"
#include "client/status_view.h"
#include "client/terminal.h"
#include "placement/layout_flags.h"

namespace tutti::client {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tutti up --model models/demo --workers 2
  tutti up --model models/demo --workers 4 --pipelines 2
  tutti up --model Qwen3-0.6B --workers 4 --memory-per-worker 2GiB --verbose
  tutti up --model models/demo --workers 2 --listen 127.0.0.1:0 \
      --exec 'tutti chat --message "What is 12 + 30?"'

Ctrl-C ends all of it. A worker that dies is started again; streams that ran through it end with
UNAVAILABLE. With --exec the exit code is that of the command, which finds the service by
TUTTI_ADDRESS.)";

// Seconds a coordinator that is told to stop lets running requests finish: below half of
// kStopGraceMs, which is what LocalCluster::Stop gives it.
constexpr const char* kCoordinatorGraceS = "0.5";

struct UpFlags {
  LocalClusterOptions cluster;
  std::string memory_per_worker;
  std::string exec;
  std::string ready_file;
  bool verbose = false;
  bool mix_numerics = false;
  std::string pipelines;  // unset: 1, or what --layout says
  int64_t kv_tokens = kLocalKvTokensDefault;
};

// One run of `tutti up`. Everything it says goes to stderr, but for the address and the device map,
// which are its result (unless --exec gives stdout to the command).
class UpSession {
 public:
  explicit UpSession(const UpFlags& flags) : flags_(flags) {}

  int Run() {
    InterruptWatcher interrupts([this](int signal, int) { signal_ = signal; });
    auto cluster = LocalCluster::Start(flags_.cluster, flags_.verbose,
                                       [this](const std::string& line) { Say(line); });
    if (!cluster.ok()) return Fail(cluster.status());
    cluster_ = *std::move(cluster);
    const int code = Supervise();
    progress_.Clear();
    EndCommand();
    if (signal_ != 0) Say("stopping");
    if (!flags_.ready_file.empty()) unlink(flags_.ready_file.c_str());
    cluster_.reset();
    return code;
  }

 private:
  void Say(const std::string& line) {
    progress_.Clear();
    std::fprintf(stderr, "%s\n", line.c_str());
  }

  int Supervise() {
    while (signal_ == 0) {
      const Instant now = clock_.Now();
      if (auto status = cluster_->Tick(now); !status.ok()) {
        progress_.Clear();
        return Fail(status);
      }
      if (now >= next_poll_) {
        if (auto status = PollStatus(); !status.ok()) {
          progress_.Clear();
          return Fail(status);
        }
        const int interval_ms = serving_ ? kServingPollMs : kSuperviseTickMs;
        next_poll_ = now + std::chrono::milliseconds(interval_ms);
      }
      if (command_) {
        if (const auto wait_status = command_->TryWait()) return ExitCodeOfWaitStatus(*wait_status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(kSuperviseTickMs));
    }
    return signal_ == SIGINT ? kExitInterrupted : flags_.exec.empty() ? kExitOk : 128 + signal_;
  }

  absl::Status PollStatus() {
    if (!cluster_->address()) {
      progress_.Show("starting", "starting");
      return absl::OkStatus();
    }
    if (client_ == nullptr) {
      TUTTI_ASSIGN_OR_RETURN(client_, Client::Create({.address = *cluster_->address()}));
    }
    CallOptions options{.timeout = std::chrono::milliseconds(kStatusTimeoutMs)};
    const auto status = client_->GetStatus(options);
    if (!status.ok()) {
      OnNotServing(status.status().message());
      return absl::OkStatus();
    }
    if (status->serving() && (announced_ || AllServe(*status))) return OnServing(*status);
    OnNotServing(status->why_not_serving());
    progress_.Show(RenderProgress(*status), RenderMilestone(*status));
    return absl::OkStatus();
  }

  static bool AllServe(const v1::GetStatusResponse& status) {
    return std::all_of(status.pipelines().begin(), status.pipelines().end(),
                       [](const v1::PipelineStatus& p) { return p.state() == "serving"; });
  }

  void OnNotServing(absl::string_view why) {
    if (!serving_) return;
    serving_ = false;
    lost_at_ = clock_.Now();
    Say(absl::StrCat("not serving: ", OneLine(why)));
  }

  absl::Status OnServing(const v1::GetStatusResponse& status) {
    // A pipeline may be lost and form again between two looks; its epoch tells. Epochs are counted
    // over all pipelines.
    uint64_t epoch = 0;
    for (const v1::PipelineStatus& pipeline : status.pipelines()) {
      epoch = std::max(epoch, pipeline.epoch());
    }
    const bool formed_again = epoch != std::exchange(epoch_, epoch);
    const bool was_serving = std::exchange(serving_, true);
    if (!announced_) {
      announced_ = true;
      cluster_->MarkServing();
      progress_.Clear();
      Announce(status);
      TUTTI_RETURN_IF_ERROR(WriteReadyFile());
      return StartCommand();
    }
    if (!was_serving) {
      Say(absl::StrCat("serving again after ", FormatSeconds(Seconds(clock_.Now() - lost_at_))));
    } else if (formed_again) {
      Say(absl::StrCat("serving again: a pipeline formed anew, epoch ", epoch));
    }
    return absl::OkStatus();
  }

  void Announce(const v1::GetStatusResponse& status) {
    std::FILE* out = flags_.exec.empty() ? stdout : stderr;
    const Style style(fileno(out));
    std::string text =
        absl::StrCat(style.Green("serving"), " ", style.Bold(OneLine(status.model())), " at ",
                     style.Bold(*cluster_->address()), " after ",
                     FormatSeconds(Seconds(clock_.Now() - started_)), "\n");
    for (const v1::PipelineStatus& pipeline : status.pipelines()) {
      absl::StrAppend(&text, RenderDeviceMap(pipeline, /*activity=*/false),
                      "  KV room: ", FormatCount(pipeline.kv_tokens_total()), " tokens\n");
    }
    std::fputs(text.c_str(), out);
    std::fflush(out);
  }

  // Written aside and renamed: whoever sees the file sees all of it.
  absl::Status WriteReadyFile() const {
    if (flags_.ready_file.empty()) return absl::OkStatus();
    const std::string aside = flags_.ready_file + ".new";
    std::ofstream file(aside, std::ios::trunc);
    file << nlohmann::json{{"address", *cluster_->address()}}.dump() << "\n";
    file.close();
    if (!file || rename(aside.c_str(), flags_.ready_file.c_str()) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot write --ready-file ", flags_.ready_file));
    }
    return absl::OkStatus();
  }

  absl::Status StartCommand() {
    if (flags_.exec.empty()) return absl::OkStatus();
    ChildSpec spec;
    spec.arguments = {"/bin/sh", "-c", flags_.exec};
    spec.environment = {"TUTTI_ADDRESS=" + *cluster_->address()};
    spec.own_group = false;  // it may read from the terminal
    TUTTI_ASSIGN_OR_RETURN(ChildProcess command, ChildProcess::Start(spec));
    command_.emplace(std::move(command));
    return absl::OkStatus();
  }

  void EndCommand() {
    if (!command_) return;
    command_->Signal(SIGTERM);
    const Instant deadline = clock_.Now() + std::chrono::milliseconds(kStopGraceMs);
    while (!command_->TryWait() && clock_.Now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    command_.reset();  // kills what is left
  }

  const UpFlags& flags_;
  const SystemClock clock_;
  const Instant started_ = clock_.Now();
  std::atomic<int> signal_{0};  // set by the watcher's thread
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<Client> client_;
  std::optional<ChildProcess> command_;
  ProgressLine progress_;
  bool announced_ = false;
  bool serving_ = false;
  uint64_t epoch_ = 0;
  Instant lost_at_{};
  Instant next_poll_{};
};

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
  if (!std::filesystem::is_regular_file(cluster.model + "/config.json", error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model: there is no ", cluster.model, "/config.json"));
  }
  cluster.model = std::filesystem::absolute(cluster.model).string();
  if (cluster.threads_per_worker == 0) {
    cluster.threads_per_worker = std::max(1, CpuCount() / cluster.workers);
  }
  if (flags->memory_per_worker.empty()) {
    cluster.memory_per_worker = static_cast<int64_t>(static_cast<double>(AvailableMemoryBytes()) *
                                                     kLocalMemoryShare / cluster.workers);
  } else {
    TUTTI_ASSIGN_OR_RETURN(cluster.memory_per_worker, ParseBytes(flags->memory_per_worker));
  }
  if (!cluster.log_dir.empty()) {
    std::filesystem::create_directories(cluster.log_dir, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("--log-dir ", cluster.log_dir, ": ", error.message()));
    }
  }
  return absl::OkStatus();
}

// Flags that the coordinator or the workers have too, under the same name: passed on when they are
// given.
struct PassedOn {
  const char* name;
  const char* help;
  bool to_workers;
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
    {"--chunk-tokens", "Rows of one prompt in a step at most", false},
    {"--max-num-seqs", "Sequences running at once", false},
    {"--max-model-len", "Longest sequence", false},
    {"--max-waiting", "Requests that may wait; beyond it they are refused", false},
    {"--served-model-name", "The model's name for clients; unset: the folder's", false},
    {"--lease-ms", "A worker without progress for so long is lost", false},
    {"--device", "cpu, cuda:N or reference", true},
    {"--cuda-graphs", "on, or off: every kernel of a GPU starts by itself", true},
    {"--cuda-early-kernels",
     "on, or off: no kernel of a GPU begins before the one before has ended", true},
    {"--speed", "auto: measured at start; off; or told, 20GB/s@100Gflop/s", true},
    {"--shared-memory-dir", "Where ranks of a stage exchange; empty: over their links", true},
    {"--device-exchange", "Whose GPUs exchange directly: off, machine or network", true},
    {"--numerics-class", "Force a lower class than the machine offers", true},
};

void AddClusterFlags(CLI::App* app, UpFlags* flags) {
  LocalClusterOptions& cluster = flags->cluster;
  app->add_option("--model", cluster.model, "Folder of a HuggingFace checkpoint")
      ->required()
      ->envname("TUTTI_MODEL");
  app->add_option("-w,--workers", cluster.workers, "Worker processes")
      ->default_val(1)
      ->check(CLI::Range(1, kLocalWorkersMax))
      ->envname("TUTTI_WORKERS");
  app->add_option("--pipelines", flags->pipelines,
                  "Copies of the model that the workers are shared out over, or auto; unset: 1")
      ->envname("TUTTI_PIPELINES");
  app->add_option("--listen", cluster.listen, "Where clients connect; port 0: any free one")
      ->default_val("127.0.0.1:50051")
      ->envname("TUTTI_LISTEN");
  app->add_option("--threads-per-worker", cluster.threads_per_worker,
                  "Compute threads; 0: the CPUs divided by the workers")
      ->default_val(0)
      ->check(CLI::Range(0, 1024));
  app->add_option("--memory-per-worker", flags->memory_per_worker,
                  "Memory for weights, KV cache and work; unset: 80 % of what is available,\n"
                  "divided by the workers")
      ->check(kIsSize);
  app->add_option("--kv-tokens", flags->kv_tokens, "KV room in tokens; 0: as much as memory allows")
      ->envname("TUTTI_KV_TOKENS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--log-dir", cluster.log_dir, "Keep the processes' logs here");
  app->add_option("--log-level", "Of all processes: trace, debug, info, warn, error")
      ->default_str("info")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->envname("TUTTI_LOG_LEVEL");
  app->add_option("--exec", flags->exec,
                  "Once serving, run this shell command, then end everything");
  app->add_option("--ready-file", flags->ready_file,
                  "Once serving, write {\"address\": ...} to this file");
  app->add_flag("-v,--verbose", flags->verbose, "Show the processes' logs as they are written");
}

// "--max-num-seqs" is TUTTI_MAX_NUM_SEQS.
std::string EnvironmentName(const std::string& flag) {
  return "TUTTI_" + absl::AsciiStrToUpper(absl::StrReplaceAll(flag.substr(2), {{"-", "_"}}));
}

// The workers are shared out evenly unless told otherwise; empty where a device map says it itself.
std::string DefaultStages(const CLI::App& app, const UpFlags& flags) {
  for (const char* flag : {"--pipeline-parallel-size", "--device-map", "--layout"}) {
    if (app.count(flag) > 0) return "";
  }
  const CLI::Option* ranks = app.get_option("--tensor-parallel-size");
  int per_stage = 1;
  // Ranks of each stage say how many stages there are; what is wrong is the coordinator's to say.
  if (ranks->count() > 0 && ranks->results().front() == "auto") return "auto";
  if (ranks->count() > 0 && !absl::SimpleAtoi(ranks->results().front(), &per_stage)) return "";
  int pipelines = 1;
  if (!flags.pipelines.empty() && !absl::SimpleAtoi(flags.pipelines, &pipelines)) return "auto";
  const CLI::Option* limits = app.get_option("--max-memory");
  int workers = flags.cluster.workers;  // less those that a limit for others leaves out
  if (limits->count() > 0) {
    const std::vector<absl::string_view> limited = absl::StrSplit(limits->results().front(), ',');
    workers = std::min(workers, static_cast<int>(limited.size()));
  }
  return absl::StrCat(std::max(1, workers / pipelines / std::max(1, per_stage)));
}

// What the user gave, and what follows from it, as flags of the two programs.
void FillProgramFlags(const CLI::App& app, UpFlags* flags) {
  auto& to_coordinator = flags->cluster.coordinator_flags;
  auto& to_workers = flags->cluster.worker_flags;
  const auto pass_on = [&app](const char* name, std::vector<std::string>* to) {
    const CLI::Option* option = app.get_option(name);
    if (option->count() > 0) to->insert(to->end(), {name, option->results().front()});
  };
  for (const PassedOn& passed : kPassedOn) {
    pass_on(passed.name, passed.to_workers ? &to_workers : &to_coordinator);
  }
  pass_on("--log-level", &to_coordinator);
  pass_on("--log-level", &to_workers);
  if (flags->mix_numerics) to_coordinator.push_back("--mix-numerics");
  // The order of the end is ours: the coordinator's part of it has to fit into our own deadline.
  to_coordinator.insert(to_coordinator.end(), {"--shutdown-grace", kCoordinatorGraceS});
  to_coordinator.insert(to_coordinator.end(), {"--kv-tokens", absl::StrCat(flags->kv_tokens)});
  const bool automatic = app.count("--layout") > 0;
  to_coordinator.insert(to_coordinator.end(),
                        {"--pipelines", !flags->pipelines.empty() ? flags->pipelines
                                        : automatic               ? "auto"
                                                                  : "1"});
  // All of them are about to come: who joins first must not decide anything.
  if (app.count("--min-workers") == 0) {
    to_coordinator.insert(to_coordinator.end(),
                          {"--min-workers", absl::StrCat(flags->cluster.workers)});
  }
  const std::string stages = DefaultStages(app, *flags);
  if (!stages.empty()) {
    to_coordinator.insert(to_coordinator.end(), {"--pipeline-parallel-size", stages});
  }
}

int RunUp(const CLI::App& app, UpFlags* flags) {
  if (auto status = ResolveDefaults(flags); !status.ok()) return Fail(status);
  FillProgramFlags(app, flags);
  return UpSession(*flags).Run();
}

}  // namespace

Command MakeUpCommand(CLI::App* root) {
  CLI::App* app = root->add_subcommand("up", "Start a whole cluster on this machine");
  auto flags = std::make_shared<UpFlags>();
  AddClusterFlags(app, flags.get());
  app->add_flag("--mix-numerics", flags->mix_numerics,
                "Allow workers of different numerics classes");
  for (const PassedOn& passed : kPassedOn) {
    app->add_option(passed.name, passed.help)
        ->envname(EnvironmentName(passed.name))
        ->group("Passed on");
  }
  app->footer(kExamples);
  return {app, [app, flags] { return RunUp(*app, flags.get()); }};
}

}  // namespace tutti::client
