// tutti up: a whole cluster on this machine in one command.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "client/child_process.h"
#include "client/command.h"
#include "client/device_deal.h"
#include "client/device_report.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/loading_view.h"
#include "client/local_cluster.h"
#include "client/status_view.h"
#include "client/terminal.h"
#include "client/up_flags.h"
#include "program/ready_file.h"

namespace tutti::client {
namespace {

constexpr const char* kUpExamples = R"(
Examples:
  tutti up --model models/demo --workers 2
  tutti up --model models/demo --workers 4 --pipelines 2
  tutti up --model Qwen3-0.6B --workers 4 --memory-per-worker 2GiB --verbose
  tutti up --model models/demo --http 127.0.0.1:9000     # OpenAI's API there; off: nowhere
  tutti up --model models/demo --grpc 127.0.0.1:8001     # clients of KServe and vLLM's engine there
  tutti up --model models/demo --workers 2 --listen 127.0.0.1:0 \
      --exec 'tutti chat --message "What is 12 + 30?"'

Any option of tutti-gateway, tutti-coordinator and tutti-worker that is not listed here may be
given too, and its variable set: it goes to the first of them that has it, or to the one that is
named, as in --coordinator.tls-cert. For others' machines, with a key, and figures for Prometheus:
  TUTTI_API_KEY=... tutti up --model DIR --http 0.0.0.0:8000 --http-plaintext \
      --metrics 127.0.0.1:9090

Ctrl-C ends all of it when what runs has finished, a second Ctrl-C at once. A worker that dies is
started again; streams that ran through it go on. With --exec the exit code is that of the command,
which finds the service by TUTTI_ADDRESS (and TUTTI_ADMIN, TUTTI_HTTP, TUTTI_GRPC).
Exit codes: 0 told to stop by SIGTERM, 1 failed, 2 flags, files or a model that cannot be right,
130 interrupted.)";

// One run of `tutti up`. Its messages go to stderr, except the address and the device map, which
// are its result (unless --exec gives stdout to the command).
class UpSession {
 public:
  explicit UpSession(const UpFlags& flags) : flags_(flags) {}

  int Run() {
    InterruptWatcher interrupts([this](int signal, int) { OnSignal(signal); });
    for (const std::string& notice : flags_.notices) Say(notice);
    auto cluster = LocalCluster::Start(flags_.cluster, flags_.verbose,
                                       [this](const std::string& line) { Say(line); });
    if (!cluster.ok()) return Fail(cluster.status());
    cluster_ = *std::move(cluster);
    const int code = Supervise();
    progress_.Clear();
    EndCommand();
    if (signal_ != 0) Say("stopping; what runs may finish, a second signal ends it");
    if (!flags_.ready_file.empty()) unlink(flags_.ready_file.c_str());
    // A process that was not told to stop has failed, or has run its command: nobody is waited for.
    cluster_->Stop([this] { return hurried_ || signal_ == 0; });
    cluster_.reset();
    return code;
  }

 private:
  // Called on the watcher's thread.
  void OnSignal(int signal) {
    const Instant now = clock_.Now();
    if (signal_ == 0) {
      signalled_at_ = now;
      signal_ = signal;
    } else if (now >= signalled_at_ + std::chrono::milliseconds(kOneSignalMs)) {
      hurried_ = true;
    }
  }

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
    if (!cluster_->listens()) {
      progress_.Show("starting", "starting");
      return absl::OkStatus();
    }
    if (client_ == nullptr) {
      TUTTI_ASSIGN_OR_RETURN(
          client_, Client::Create({.address = *cluster_->address(), .admin = cluster_->admin()}));
    }
    CallOptions options{.timeout = std::chrono::milliseconds(kStatusTimeoutMs)};
    const auto status = client_->GetStatus(options);
    if (!status.ok()) {
      OnNotServing(absl::IsDeadlineExceeded(status.status())
                       ? absl::StrCat("the coordinator has not told its status within ",
                                      kStatusTimeoutMs, " ms")
                       : std::string(status.status().message()));
      return absl::OkStatus();
    }
    TellRefused(*status);
    const bool all_serve = AllServe(*status) && cluster_->gateway_serves();
    if (status->serving() && (announced_ || all_serve)) return OnServing(*status);
    OnNotServing(status->why_not_serving());
    // All workers read this checkpoint; one that has served may be mended under them.
    if (!announced_ && !status->cannot_load().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model cannot be loaded: ", OneLine(status->cannot_load())));
    }
    TUTTI_RETURN_IF_ERROR(CheckCanForm(*status));
    progress_.Show(RenderProgress(*status), RenderMilestone(*status));
    return absl::OkStatus();
  }

  // The workers that came and were turned away, once for each reason: the coordinator knows a few
  // of the latest.
  void TellRefused(const v1::GetStatusResponse& status) {
    std::set<std::string> now;
    for (const v1::RefusedPeer& peer : status.refused_peers()) {
      std::string line = RefusedText(peer);
      if (told_.count(line) == 0) Say(line);
      now.insert(std::move(line));
    }
    told_ = std::move(now);
  }

  // An error where all workers are there, or were turned away, and no pipeline forms of them:
  // nobody else will come.
  absl::Status CheckCanForm(const v1::GetStatusResponse& status) {
    std::set<std::string> seen;
    std::string why = status.why_not_serving();
    for (const v1::WorkerStatus& worker : status.idle_workers()) seen.insert(worker.worker_id());
    for (const v1::RefusedPeer& peer : status.refused_peers()) {
      if (!seen.insert(peer.worker_id()).second) continue;
      why = absl::StrCat(peer.worker_id(), ": ", peer.reason());
    }
    const bool forms = std::any_of(status.pipelines().begin(), status.pipelines().end(),
                                   [](const v1::PipelineStatus& p) { return !p.stages().empty(); });
    const bool stuck =
        !announced_ && !forms && static_cast<int>(seen.size()) >= flags_.cluster.workers;
    const Instant now = clock_.Now();
    if (!stuck || why != cannot_form_) stuck_since_ = now;
    cannot_form_ = std::move(why);
    if (!stuck || now < stuck_since_ + std::chrono::milliseconds(kCannotFormMs)) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        absl::StrCat("no pipeline can be formed: ", OneLine(cannot_form_)));
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
      TUTTI_RETURN_IF_ERROR(SayReady());
      return StartCommand();
    }
    if (!was_serving) {
      Say(absl::StrCat("serving again after ", FormatSeconds(Seconds(clock_.Now() - lost_at_))));
    } else if (formed_again) {
      Say(absl::StrCat("serving again: a pipeline formed anew, epoch ", EpochName(Epoch(epoch))));
    }
    return absl::OkStatus();
  }

  void Announce(const v1::GetStatusResponse& status) {
    std::FILE* out = flags_.exec.empty() ? stdout : stderr;
    const Style style(fileno(out));
    std::string text = absl::StrCat(
        style.Green("serving"), " ", style.Bold(OneLine(status.model())), " at ",
        style.Bold(*cluster_->address()), " after ",
        FormatSeconds(Seconds(clock_.Now() - started_)), "\n", HttpLine(style), GrpcLine(style));
    absl::StrAppend(&text, TextLine());
    if (!flags_.why_cpu.empty()) absl::StrAppend(&text, "  from the CPU: ", flags_.why_cpu, "\n");
    for (const v1::PipelineStatus& pipeline : status.pipelines()) {
      absl::StrAppend(&text, RenderDeviceMap(pipeline, /*activity=*/false),
                      "  KV room: ", FormatCount(pipeline.kv_tokens_total()), " tokens\n");
    }
    std::fputs(text.c_str(), out);
    std::fflush(out);
  }

  // "" without a gateway.
  std::string HttpLine(const Style& style) const {
    const std::string& address = cluster_->http_address();
    if (address.empty()) return "";
    const std::string& wanted = flags_.cluster.http;
    const absl::string_view port = absl::string_view(wanted).substr(wanted.rfind(':'));
    const bool other = port != ":0" && !absl::EndsWith(address, port);
    return absl::StrCat("  OpenAI's API at ", style.Bold(absl::StrCat("http://", address, "/v1")),
                        other ? absl::StrCat(" (port ", port.substr(1), " is taken)") : "", "\n");
  }

  // What of texts the model cannot do; "" for one that can all.
  std::string TextLine() const {
    CallOptions options{.timeout = std::chrono::milliseconds(kStatusTimeoutMs)};
    v1::DetokenizeRequest request;
    request.add_ids(0);
    if (absl::IsFailedPrecondition(client_->Detokenize(request, options).status())) {
      return "  no tokenizer: prompts are token ids, and chats and texts are refused\n";
    }
    const auto model = client_->GetModel(options);
    if (!model.ok() || !model->chat_template().empty()) return "";
    return "  no chat template: chats are refused; --chat-template FILE gives one\n";
  }

  // "" where the gateway serves none.
  std::string GrpcLine(const Style& style) const {
    const std::string& address = cluster_->grpc_address();
    if (address.empty()) return "";
    return absl::StrCat("  gRPC (tutti.v1.Inference, KServe, VllmEngine) at ", style.Bold(address),
                        "\n");
  }

  absl::Status SayReady() const {
    if (flags_.ready_file.empty()) return absl::OkStatus();
    const nlohmann::json ready = {{"address", *cluster_->address()},
                                  {"admin", cluster_->admin()},
                                  {"http", cluster_->http_address()},
                                  {"grpc", cluster_->grpc_address()}};
    if (WriteReadyFile(flags_.ready_file, ready.dump())) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cannot write --ready-file ", flags_.ready_file));
  }

  absl::Status StartCommand() {
    if (flags_.exec.empty()) return absl::OkStatus();
    ChildSpec spec;
    spec.arguments = {"/bin/sh", "-c", flags_.exec};
    spec.environment = {"TUTTI_ADDRESS=" + *cluster_->address(), "TUTTI_ADMIN=" + cluster_->admin(),
                        "TUTTI_HTTP=" + cluster_->http_address(),
                        "TUTTI_GRPC=" + cluster_->grpc_address()};
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
    command_.reset();  // kills it if it still runs
  }

  const UpFlags& flags_;
  const SystemClock clock_;
  const Instant started_ = clock_.Now();
  std::atomic<int> signal_{0};  // set by the watcher's thread
  std::atomic<bool> hurried_{false};
  Instant signalled_at_{};  // the watcher's
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<Client> client_;
  std::optional<ChildProcess> command_;
  ProgressLine progress_;
  std::set<std::string> told_;  // of those refused
  bool announced_ = false;
  bool serving_ = false;
  uint64_t epoch_ = 0;
  Instant lost_at_{};
  std::string cannot_form_;  // CheckCanForm: the latest reason, and since when it is that
  Instant stuck_since_{};
  Instant next_poll_{};
};

// The flags with what the machine has. Its GPUs are asked for last: a driver takes its time.
absl::Status Resolve(const FlagSet& set, UpFlags* flags) {
  TUTTI_RETURN_IF_ERROR(FindUpModel(flags));
  MachineDevices machine;
  if (DealsGpus(flags->device)) {
    auto answer = AskForDevices();
    // A caller that has not asked for GPUs is served without them, and told why.
    if (!answer.ok() && flags->device != "auto") return answer.status();
    machine = answer.ok() ? *std::move(answer)
                          : MachineDevices{.problem = std::string(answer.status().message())};
  }
  TUTTI_RETURN_IF_ERROR(ResolveUpFlags(set, machine, flags));
  return PassOnOthers(set, flags);
}

int RunUp(const FlagSet& set, UpFlags* flags) {
  if (auto status = Resolve(set, flags); !status.ok()) {
    Fail(status);
    return kExitUsage;
  }
  return UpSession(*flags).Run();
}

}  // namespace

Command MakeUpCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("up", "Start a whole cluster on this machine");
  auto flags = std::make_shared<UpFlags>();
  AddUpFlags(set, flags.get());
  set->AddFooter(kUpExamples);
  return {set, [set, flags] { return RunUp(*set, flags.get()); }};
}

}  // namespace tutti::client
