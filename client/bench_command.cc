// tutti bench: asks a service many things at once, and says how it did.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "client/command.h"
#include "client/format.h"
#include "client/load/answers.h"
#include "client/load/driver.h"
#include "client/load/limits.h"
#include "client/load/report.h"
#include "client/print.h"
#include "client/sampling_flags.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tutti bench --rate 20 --chats 200 --turns 2 --history 8 --slo-ttft-ms 500 --slo-itl-ms 50
  tutti bench --concurrency 32 --duration 30 --input-tokens 256 --shared-tokens 128 --max-tokens 64
  tutti bench --trace mooncake_trace.jsonl --trace-speed 10 --trace-block 16
  tutti bench --concurrency 8 --chats 50 --questions models/demo/questions.json --verify
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
// What the demo model answers rightly of questions it was not trained on, less a margin.
constexpr double kRightShareDefault = 0.9;

struct BenchFlags {
  ServiceFlags service;
  SamplingFlags sampling;
  AskerFlags asker;
  double rate = 0;
  int32_t concurrency = 0;
  std::string trace;
  double trace_speed = 1;
  int32_t trace_block = kTraceBlockTokens;
  int64_t chats = 0;
  double duration_s = 0;
  double think_time_s = 0;
  ChatOptions chat;
  std::string questions;
  double slo_ttft_ms = 0;
  double slo_itl_ms = 0;
  bool verify = false;
  double right_share = kRightShareDefault;
  std::string record;
  std::string compare;
  bool json = false;
};

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// A load, ready to run.
struct Plan {
  DriverOptions driver;
  ChatOptions chat;
  std::vector<TraceRequest> trace;
  std::optional<Answers> recorded;
  std::string asked;  // what it asks, in words that are equal when the requests are
};

// Where the flags contradict each other or leave something open.
absl::Status CheckFlags(const BenchFlags& flags) {
  const int ways = (flags.rate > 0) + (flags.concurrency > 0) + !flags.trace.empty();
  if (ways != 1) {
    return absl::InvalidArgumentError(
        "give one of --rate, --concurrency and --trace: they say when a chat begins");
  }
  if (flags.trace.empty() && flags.chats == 0 && flags.duration_s == 0) {
    return absl::InvalidArgumentError("give --chats or --duration: how much is enough");
  }
  if (!flags.trace.empty() && (flags.chat.turns > 1 || flags.chat.input_tokens > 0 ||
                               !flags.questions.empty() || flags.chat.history > 0)) {
    return absl::InvalidArgumentError(
        "--trace says what is asked: --turns, --history, --questions and --input-tokens do not go "
        "with it");
  }
  if (flags.chat.input_tokens > 0 && (!flags.questions.empty() || flags.chat.history > 0 ||
                                      !flags.chat.system.empty() || flags.verify)) {
    return absl::InvalidArgumentError(
        "--input-tokens asks for random tokens: --questions, --history, --system and --verify do "
        "not go with it");
  }
  if (flags.chat.shared_tokens > flags.chat.input_tokens) {
    return absl::InvalidArgumentError("--shared-tokens is more than --input-tokens");
  }
  return absl::OkStatus();
}

absl::Status ReadTraceFile(const BenchFlags& flags, Plan* plan) {
  std::ifstream file(flags.trace);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the file ", flags.trace));
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

absl::StatusOr<Plan> MakePlan(const BenchFlags& flags, Client* client) {
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
  if (flags.service.timeout_s > 0) plan.driver.timeout = FromSeconds(flags.service.timeout_s);

  plan.chat = flags.chat;
  plan.chat.priority = flags.asker.priority;
  TUTTI_RETURN_IF_ERROR(FillSampling(flags.sampling, &plan.chat.sampling));
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
  TUTTI_ASSIGN_OR_RETURN(const v1::GetModelResponse model, client->GetModel());
  plan.chat.vocabulary = static_cast<int32_t>(model.vocab_size());
  BenchFlags resolved = flags;
  resolved.chat = plan.chat;
  plan.asked = DescribeRequests(resolved, model);
  return plan;
}

std::string ProgressText(const LoadProgress& progress) {
  return absl::StrFormat("%s: %s requests begun, %s ended, %s failed; %s output tokens",
                         FormatSeconds(Seconds(progress.elapsed)), FormatCount(progress.begun),
                         FormatCount(progress.ended), FormatCount(progress.failed),
                         FormatCount(progress.tokens));
}

// What remains to be said once the figures stand: whether the answers are those they should be.
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

int RunBench(const BenchFlags& flags) {
  if (auto status = CheckFlags(flags); !status.ok()) return Fail(status);
  // The driver is made later; until then an interrupt ends the program.
  std::mutex mutex;
  LoadDriver* running = nullptr;
  bool interrupted = false;
  InterruptWatcher interrupts([&](int signal, int count) {
    const std::lock_guard lock(mutex);
    if (running == nullptr || count > 1) _exit(128 + signal);
    interrupted = true;
    running->Interrupt();
  });
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  auto plan = MakePlan(flags, client->get());
  if (!plan.ok()) return Fail(plan.status());

  const SystemClock clock;
  LoadDriver driver(plan->driver, client->get(), &clock, [&](int64_t number) {
    if (plan->trace.empty()) return MakeChat(plan->chat, number);
    return MakeTraceChat(plan->chat, plan->trace[static_cast<size_t>(number)], flags.trace_block,
                         number);
  });
  {
    const std::lock_guard lock(mutex);
    running = &driver;
  }
  Slo slo;
  if (flags.slo_ttft_ms > 0) slo.first_token = FromSeconds(flags.slo_ttft_ms / 1e3);
  if (flags.slo_itl_ms > 0) slo.token_gap = FromSeconds(flags.slo_itl_ms / 1e3);
  LoadReport report(slo);
  Answers answers(plan->asked);
  const bool keep = !flags.record.empty() || plan->recorded.has_value();
  ProgressLine line;
  const Duration elapsed = driver.Run(
      [&](const Turn& turn) {
        report.Add(turn);
        if (keep) answers.Add(turn);
      },
      [&](const LoadProgress& progress) { line.Show(ProgressText(progress), ""); });
  line.Clear();
  {
    const std::lock_guard lock(mutex);
    running = nullptr;
    report.Close(elapsed, interrupted);
  }
  nlohmann::ordered_json json = report.ToJson();
  const absl::Status verdict = Judge(flags, *plan, report, answers, &json);
  const absl::Status printed = PrintLine(flags.json ? json.dump(2) : report.ToText());
  if (!printed.ok()) return Fail(printed);
  if (!flags.record.empty()) {
    if (auto status = answers.Save(flags.record); !status.ok()) return Fail(status);
  }
  if (interrupted) return kExitInterrupted;
  return verdict.ok() ? kExitOk : Fail(verdict);
}

void AddLoadFlags(CLI::App* app, BenchFlags* flags) {
  const auto add = [app](const char* name, auto& value, const char* help) {
    return app->add_option(name, value, help)->group("Load")->capture_default_str();
  };
  add("--rate", flags->rate, "Chats per second on average, at random times (an open loop)")
      ->check(CLI::Range(1e-3, 1e5));
  add("--concurrency", flags->concurrency, "Chats at a time (a closed loop)")
      ->check(CLI::Range(1, 100000));
  add("--trace", flags->trace, "Requests of a trace in Mooncake's format (JSON Lines)");
  add("--trace-speed", flags->trace_speed, "Replay the trace so many times as fast")
      ->check(CLI::Range(1e-3, 1e6));
  add("--trace-block", flags->trace_block,
      "Tokens for each 512 of the trace, so that a small context can hold its prompts")
      ->check(CLI::Range(1, kTraceBlockTokens));
  add("--chats", flags->chats, "Chats in all; with --trace its first ones")
      ->check(CLI::Range(int64_t{1}, kLoadChatsMax));
  add("--duration", flags->duration_s, "Seconds after which no chat begins any more")
      ->check(CLI::Range(1e-3, 1e6));
  add("--turns", flags->chat.turns, "Questions of a chat, one after the answer of the other")
      ->check(CLI::Range(int64_t{1}, kLoadTurnsMax));
  add("--think-time", flags->think_time_s, "Seconds between an answer and the next question")
      ->check(CLI::Range(0.0, 1e6));
}

void AddRequestFlags(CLI::App* app, BenchFlags* flags) {
  const auto add = [app](const char* name, auto& value, const char* help) {
    return app->add_option(name, value, help)->group("Requests")->capture_default_str();
  };
  add("--questions", flags->questions,
      "Ask the questions of this file, like models/demo/questions.json");
  add("--history", flags->chat.history, "Answered questions that every chat begins with")
      ->check(CLI::Range(int64_t{0}, kLoadTurnsMax));
  add("--system", flags->chat.system, "The system message of all chats");
  add("--input-tokens", flags->chat.input_tokens, "Random token ids, so many a turn, not questions")
      ->check(CLI::Range(int64_t{0}, kLoadTokensMax));
  add("--shared-tokens", flags->chat.shared_tokens,
      "Of the first turn's tokens, how many are the same for all chats")
      ->check(CLI::Range(int64_t{0}, kLoadTokensMax));
  add("--tenants", flags->chat.tenants, "Deal the chats to so many tenants")
      ->check(CLI::Range(0, 1000000));
  add("--priority", flags->asker.priority, "-100 to 100; lower goes first");
}

}  // namespace

Command MakeBenchCommand(CLI::App* root) {
  CLI::App* app = root->add_subcommand("bench", "Measure a service under load");
  auto flags = std::make_shared<BenchFlags>();
  AddLoadFlags(app, flags.get());
  AddRequestFlags(app, flags.get());
  const auto add = [app](const char* name, auto& value, const char* help) {
    return app->add_option(name, value, help)->group("Report");
  };
  add("--slo-ttft-ms", flags->slo_ttft_ms, "Goodput counts answers whose first token came by then")
      ->check(CLI::PositiveNumber);
  add("--slo-itl-ms", flags->slo_itl_ms, "And whose tokens came so close together on average")
      ->check(CLI::PositiveNumber);
  app->add_flag("--verify", flags->verify, "Fail when too few answers are right")->group("Report");
  add("--verify-share", flags->right_share, "What --verify wants to be right")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add("--record", flags->record, "Keep the answers in this file");
  add("--compare", flags->compare, "Fail when the answers are not those of this file");
  app->add_flag("--json", flags->json, "The report as JSON")->group("Report");
  AddServiceFlags(app, &flags->service);
  AddSamplingFlags(app, &flags->sampling);
  app->get_option("--seed")->description("Same seed, same requests and same answers");
  app->footer(kExamples);
  return {app, [flags] {
            if (flags->sampling.seed) flags->chat.seed = *flags->sampling.seed;
            return RunBench(*flags);
          }};
}

}  // namespace tutti::client
