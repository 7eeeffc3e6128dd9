// tutti bench: loads a service with many requests at once and reports how it served them.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/bench_flags.h"
#include "client/command.h"
#include "client/format.h"
#include "client/load/answers.h"
#include "client/load/driver.h"
#include "client/load/limits.h"
#include "client/load/report.h"
#include "client/print.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kBenchExamples = R"(
Examples:
  tutti bench --rate 20 --chats 200 --turns 2 --history 8 --slo-ttft-ms 500 --slo-itl-ms 50
  tutti bench --concurrency 32 --duration 30 --input-tokens 256 --shared-tokens 128 --max-tokens 64
  tutti bench --trace mooncake_trace.jsonl --trace-speed 10 --trace-block 16
  tutti bench --concurrency 8 --chats 50 --questions models/demo/questions.json --verify
  tutti bench --rate 10 --chats 500 --questions ShareGPT.json --max-tokens 256 --as-vllm
  tutti bench --concurrency 1 --chats 32 --record one.jsonl     # and on another cluster:
  tutti bench --rate 50 --chats 32 --compare one.jsonl

A chat begins at random times (--rate), when another ends (--concurrency) or as recorded (--trace).
Times count from when a request was due, not from when it was sent, so a slow service cannot hide by
slowing its clients down. Requests are questions the demo model knows the answers of, or random
token ids (--input-tokens). What is asked depends on the flags and --seed only.
Exit codes: 0 done, 1 nothing was answered, or --verify or --compare failed, 2 bad input, 3 service
not reachable or not serving, 130 interrupted (the report is printed then too).)";

// Tokens answered to random ones when the user does not say.
constexpr uint32_t kRandomOutputTokens = 64;
Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// A load, ready to run.
struct Plan {
  DriverOptions driver;
  ChatOptions chat;
  std::vector<TraceRequest> trace;
  std::optional<Answers> recorded;
  std::string asked;  // its requests, in words that are equal when the requests are
};

absl::Status ReadTraceFile(const BenchFlags& flags, Plan* plan) {
  std::ifstream file(flags.trace);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace: cannot read the file ", flags.trace, ": ", std::strerror(errno)));
  }
  TUTTI_ASSIGN_OR_RETURN(
      plan->trace, ReadTrace(file, flags.trace, flags.chats > 0 ? flags.chats : kLoadChatsMax));
  for (const TraceRequest& request : plan->trace) {
    plan->driver.arrivals.times.push_back(FromSeconds(Seconds(request.at) / flags.trace_speed));
  }
  return absl::OkStatus();
}

std::string DescribeRequests(const BenchFlags& flags, const v1::GetModelResponse& model) {
  const ChatOptions& chat = flags.chat;
  return absl::StrCat("model ", model.fingerprint(), ", seed ", chat.seed, ", turns ", chat.turns,
                      ", system '", chat.system, "', history ", chat.history, ", questions '",
                      flags.questions, "', input tokens ", chat.input_tokens, ", shared tokens ",
                      chat.shared_tokens, ", trace '", flags.trace, "', trace block ",
                      flags.trace_block, ", sampling ", chat.sampling.ShortDebugString());
}

// What the flags and their files say; see Complete.
absl::StatusOr<Plan> MakePlan(const BenchFlags& flags) {
  Plan plan;
  ArrivalOptions& arrivals = plan.driver.arrivals;
  arrivals.rate = flags.rate;
  arrivals.concurrency = flags.concurrency;
  arrivals.duration = FromSeconds(flags.duration_s);
  arrivals.seed = flags.chat.seed;
  if (!flags.trace.empty()) TUTTI_RETURN_IF_ERROR(ReadTraceFile(flags, &plan));
  arrivals.chats = flags.chats > 0 ? flags.chats : kLoadChatsMax;
  if (!flags.trace.empty()) {
    arrivals.chats = std::min(arrivals.chats, static_cast<int64_t>(plan.trace.size()));
  }
  plan.driver.turns = flags.chat.turns;
  plan.driver.think_time = FromSeconds(flags.think_time_s);
  plan.driver.back_off = FromSeconds(flags.back_off_s);
  if (flags.service.timeout_s > 0) plan.driver.timeout = FromSeconds(flags.service.timeout_s);

  plan.chat = flags.chat;
  plan.chat.priority = flags.asker.priority;
  TUTTI_RETURN_IF_ERROR(FillSampling(flags.sampling, &plan.chat.sampling));
  v1::GenerateRequest bound;
  TUTTI_RETURN_IF_ERROR(FillGrammar(flags.grammar, &bound));
  if (bound.has_grammar()) plan.chat.grammar = bound.grammar();
  if (!plan.chat.sampling.has_temperature()) plan.chat.sampling.set_temperature(0);
  if (flags.chat.input_tokens > 0) {
    // Random tokens have no end of their own.
    plan.chat.sampling.set_ignore_eos(true);
    if (!plan.chat.sampling.has_max_tokens())
      plan.chat.sampling.set_max_tokens(kRandomOutputTokens);
  }
  if (!flags.questions.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.questions, kLoadFileBytesMax));
    TUTTI_ASSIGN_OR_RETURN(plan.chat.questions, ParseQuestions(text, flags.questions));
  }
  if (!flags.compare.empty()) {
    TUTTI_ASSIGN_OR_RETURN(plan.recorded, Answers::Load(flags.compare));
  }
  return plan;
}

// And what depends on the model.
void Complete(const BenchFlags& flags, const v1::GetModelResponse& model, Plan* plan) {
  plan->chat.vocabulary = static_cast<int32_t>(model.vocab_size());
  BenchFlags resolved = flags;
  resolved.chat = plan->chat;
  plan->asked = DescribeRequests(resolved, model);
}

// Waits for a first pipeline: what is loaded before it would be measured otherwise. One that cannot
// be reached is waited for where the user says so: it may be a mistake in the address.
absl::StatusOr<v1::GetModelResponse> AwaitService(const BenchFlags& flags, Client* client) {
  const SystemClock clock;
  const double patience_s = flags.ready_within_s.value_or(kReadyWithinS);
  const Instant deadline = clock.Now() + FromSeconds(patience_s);
  ProgressLine line;
  while (true) {
    absl::StatusOr<v1::GetModelResponse> model = client->GetModel();
    if (model.ok() && !model->numerics_class().empty()) return model;
    const bool waits = model.ok() || (flags.ready_within_s && absl::IsUnavailable(model.status()));
    if (!waits) return model;
    if (clock.Now() >= deadline) {
      if (!model.ok()) return model;
      return absl::UnavailableError(absl::StrCat("no pipeline of model '", OneLine(model->name()),
                                                 "' serves yet; --ready-within ", patience_s,
                                                 " s have passed"));
    }
    const char* const text = model.ok() ? "waiting for the service to be ready"
                                        : "waiting for the service to be reached";
    line.Show(text, text);
    std::this_thread::sleep_for(std::chrono::milliseconds(kReadyPollMs));
  }
}

std::string ProgressText(const DriverProgress& progress) {
  std::string text = absl::StrFormat("%s: %s requests begun, %s ended, %s failed; %s output tokens",
                                     FormatSeconds(Seconds(progress.elapsed)),
                                     FormatCount(progress.begun), FormatCount(progress.ended),
                                     FormatCount(progress.failed), FormatCount(progress.tokens));
  if (progress.refused > 0) {
    absl::StrAppend(&text, "; ", FormatCount(progress.refused), " refused for now");
  }
  return text;
}

// Where progress is not seen on a terminal: a line now and then.
std::string ProgressMilestone(const DriverProgress& progress) {
  const auto lines = static_cast<int64_t>(Seconds(progress.elapsed) / kLoadProgressLineS);
  return lines == 0 ? "" : absl::StrCat(lines);
}

// Whether the answers are right, and those that were recorded.
absl::Status Judge(const BenchFlags& flags, const Plan& plan, const LoadReport& report,
                   const Answers& answers, nlohmann::ordered_json* json) {
  absl::Status verdict = absl::OkStatus();
  if (plan.recorded) {
    TUTTI_ASSIGN_OR_RETURN(const Answers::Comparison same, answers.CompareWith(*plan.recorded));
    (*json)["compared"] = {{"equal", same.equal},
                           {"different", same.different},
                           {"missing", same.missing},
                           {"unknown", same.unknown}};
    if (!same.same()) {
      std::string text = absl::StrCat("compared with ", flags.compare, ": ", same.equal,
                                      " answers equal, ", same.different, " different, ",
                                      same.missing, " missing, ", same.unknown, " not recorded");
      for (const std::string& example : same.examples) absl::StrAppend(&text, "; ", example);
      verdict = absl::DataLossError(text);
    }
  }
  const double right = report.right_share().value_or(0);
  if (verdict.ok() && flags.verify && right < flags.right_share) {
    verdict = absl::DataLossError(
        absl::StrFormat("%.1f %% of the answers are right, --verify wants %.1f %%", 100 * right,
                        100 * flags.right_share));
  }
  if (verdict.ok() && report.succeeded() == 0) {
    verdict = absl::AbortedError("no request was answered");
  }
  return verdict;
}

// The driver that a signal interrupts; null before and after its run.
struct RunningLoad {
  Mutex mutex;
  LoadDriver* driver ABSL_GUARDED_BY(mutex) = nullptr;
  bool interrupted ABSL_GUARDED_BY(mutex) = false;
};

Slo SloOf(const BenchFlags& flags) {
  Slo slo;
  if (flags.slo_ttft_ms > 0) slo.first_token = FromSeconds(flags.slo_ttft_ms / 1e3);
  if (flags.slo_itl_ms > 0) slo.token_gap = FromSeconds(flags.slo_itl_ms / 1e3);
  return slo;
}

int RunBench(const BenchFlags& flags) {
  if (auto status = CheckBenchFlags(flags); !status.ok()) return Fail(status);
  // The driver is made later; until then an interrupt ends the program.
  RunningLoad running;
  InterruptWatcher interrupts([&running](int signal, int count) {
    const MutexLock lock(&running.mutex);
    if (running.driver == nullptr || count > 1) _exit(128 + signal);
    running.interrupted = true;
    running.driver->Interrupt();
  });
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  auto plan = MakePlan(flags);
  if (!plan.ok()) return Fail(plan.status());
  const auto model = AwaitService(flags, client->get());
  if (!model.ok()) return Fail(model.status());
  Complete(flags, *model, &*plan);

  const SystemClock clock;
  LoadDriver driver(plan->driver, client->get(), &clock, [&](int64_t number) {
    if (plan->trace.empty()) return MakeChat(plan->chat, number);
    return MakeTraceChat(plan->chat, plan->trace[static_cast<size_t>(number)], flags.trace_block,
                         number);
  });
  {
    const MutexLock lock(&running.mutex);
    running.driver = &driver;
  }
  LoadReport report(SloOf(flags));
  Answers answers(plan->asked);
  const bool keep = !flags.record.empty() || plan->recorded.has_value();
  ProgressLine line;
  const Duration elapsed = driver.Run(
      [&](const Turn& turn) {
        report.Add(turn);
        if (keep) answers.Add(turn);
      },
      [&](const DriverProgress& progress) {
        line.Show(ProgressText(progress), ProgressMilestone(progress));
      });
  line.Clear();
  bool interrupted = false;
  {
    const MutexLock lock(&running.mutex);
    running.driver = nullptr;
    interrupted = running.interrupted;
  }
  report.Close(elapsed, interrupted, driver.progress().most_at_once);
  nlohmann::ordered_json json = report.ToJson();
  const absl::Status verdict = Judge(flags, *plan, report, answers, &json);
  const LoadShape shape{flags.rate, flags.concurrency};
  const absl::Status printed = PrintLine(flags.json      ? json.dump(2)
                                         : flags.as_vllm ? report.ToVllmText(shape)
                                                         : report.ToText());
  if (!printed.ok()) return Fail(printed);
  if (!flags.record.empty()) {
    if (auto status = answers.Save(flags.record); !status.ok()) return Fail(status);
  }
  if (interrupted) return kExitInterrupted;
  return verdict.ok() ? kExitOk : Fail(verdict);
}

}  // namespace

Command MakeBenchCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("bench", "Measure a service under load");
  auto flags = std::make_shared<BenchFlags>();
  AddBenchFlags(set, flags.get());
  set->AddFooter(kBenchExamples);
  return {set, [flags] {
            if (flags->sampling.seed) flags->chat.seed = *flags->sampling.seed;
            return RunBench(*flags);
          }};
}

}  // namespace tutti::client
