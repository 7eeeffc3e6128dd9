#include "client/bench_flags.h"

#include "client/load/limits.h"

namespace tutti::client {
namespace {

void AddLoadFlags(FlagSet* set, BenchFlags* flags) {
  set->Add(
      {
          {.names = "--rate",
           .variable = &flags->rate,
           .help = "Chats per second on average, at random times (an open loop)",
           .check = NumberIn(1e-3, 1e5),
           .show_default = true},
          {.names = "--concurrency",
           .variable = &flags->concurrency,
           .help = "Chats at a time (a closed loop)",
           .check = IntegerIn(1, 100000),
           .show_default = true},
          {.names = "--trace",
           .variable = &flags->trace,
           .help = "Requests of a trace in Mooncake's format (JSON Lines) or Azure's (CSV)",
           .show_default = true},
          {.names = "--trace-speed",
           .variable = &flags->trace_speed,
           .help = "Replay the trace so many times as fast",
           .check = NumberIn(1e-3, 1e6),
           .show_default = true},
          {.names = "--trace-block",
           .variable = &flags->trace_block,
           .help = "Tokens for each 512 of the trace, so that a small context can hold its prompts",
           .check = IntegerIn(1, kTraceBlockTokens),
           .show_default = true},
          {.names = "--chats",
           .variable = &flags->chats,
           .help = "Chats in all; with --trace its first ones",
           .check = IntegerIn(1, kLoadChatsMax),
           .show_default = true},
          {.names = "--duration",
           .variable = &flags->duration_s,
           .help = "Seconds after which no chat begins any more",
           .check = NumberIn(1e-3, 1e6),
           .show_default = true},
          {.names = "--turns",
           .variable = &flags->chat.turns,
           .help = "Questions of a chat, one after the answer of the other",
           .check = IntegerIn(1, kLoadTurnsMax),
           .show_default = true},
          {.names = "--ready-within",
           .variable = &flags->ready_within_s,
           .help = "Seconds to wait until the service can be reached and serves; unset: 60 for one "
                   "that is there and loads",
           .check = NumberIn(0, 1e6)},
          {.names = "--back-off",
           .variable = &flags->back_off_s,
           .help = "Seconds in which a request that is refused for now is asked again, when the "
                   "service says; 0: refusals are failures",
           .check = NumberIn(0, 1e6),
           .show_default = true},
          {.names = "--think-time",
           .variable = &flags->think_time_s,
           .help = "Seconds between an answer and the next question",
           .check = NumberIn(0, 1e6),
           .show_default = true},
      },
      "Load");
}

void AddRequestFlags(FlagSet* set, BenchFlags* flags) {
  set->Add(
      {
          {.names = "--questions",
           .variable = &flags->questions,
           .help = "Ask the questions of this file, like models/demo/questions.json, or the first "
                   "of each conversation of a file like ShareGPT's (a list or JSON Lines)",
           .show_default = true},
          {.names = "--history",
           .variable = &flags->chat.history,
           .help = "Answered questions that every chat begins with",
           .check = IntegerIn(0, kLoadTurnsMax),
           .show_default = true},
          {.names = "--system",
           .variable = &flags->chat.system,
           .help = "The system message of all chats",
           .show_default = true},
          {.names = "--input-tokens",
           .variable = &flags->chat.input_tokens,
           .help = "Random token ids, so many a turn, not questions",
           .check = IntegerIn(0, kLoadTokensMax),
           .show_default = true},
          {.names = "--shared-tokens",
           .variable = &flags->chat.shared_tokens,
           .help = "Of the first turn's tokens, how many are the same for all chats",
           .check = IntegerIn(0, kLoadTokensMax),
           .show_default = true},
          {.names = "--tenants",
           .variable = &flags->chat.tenants,
           .help = "Deal the chats to so many tenants",
           .check = IntegerIn(0, 1000000),
           .show_default = true},
          {.names = "--priority",
           .variable = &flags->asker.priority,
           .help = "-100 to 100; lower goes first",
           .show_default = true},
      },
      "Requests");
}

void AddReportFlags(FlagSet* set, BenchFlags* flags) {
  set->Add(
      {
          {.names = "--slo-ttft-ms",
           .variable = &flags->slo_ttft_ms,
           .help = "Goodput counts answers whose first token came by then",
           .check = Positive()},
          {.names = "--slo-itl-ms",
           .variable = &flags->slo_itl_ms,
           .help = "And whose tokens came so close together on average",
           .check = Positive()},
          {.names = "--verify",
           .variable = &flags->verify,
           .help = "Fail when too few answers are right"},
          {.names = "--verify-share",
           .variable = &flags->right_share,
           .help = "What --verify wants to be right",
           .check = NumberIn(0, 1),
           .show_default = true},
          {.names = "--record",
           .variable = &flags->record,
           .help = "Keep the answers in this file"},
          {.names = "--compare",
           .variable = &flags->compare,
           .help = "Fail when the answers are not those of this file"},
          {.names = "--json", .variable = &flags->json, .help = "The report as JSON"},
          {.names = "--as-vllm",
           .variable = &flags->as_vllm,
           .help = "The report under the names of `vllm bench serve`",
           .excludes = {"--json"}},
      },
      "Report");
}

}  // namespace

void AddBenchFlags(FlagSet* set, BenchFlags* flags) {
  AddLoadFlags(set, flags);
  AddRequestFlags(set, flags);
  AddReportFlags(set, flags);
  AddGenerateServiceFlags(set, &flags->service);
  AddSamplingFlags(set, &flags->sampling, "Same seed, same requests and same answers");
  AddGrammarFlags(set, &flags->grammar);
}

absl::Status CheckBenchFlags(const BenchFlags& flags) {
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

}  // namespace tutti::client
