// tutti-bench: how fast the parts are, each beside the limit it works against.
#include <optional>
#include <string>
#include <vector>

#include "base/build_info.h"
#include "bench/directory_bench.h"
#include "bench/engine_bench.h"
#include "bench/link_bench.h"
#include "bench/local.h"
#include "bench/speculation_bench.h"
#include "bench/tune_bench.h"
#include "client/command.h"
#include "client/print.h"
#include "kernels/plugin_loader.h"
#include "program/flags.h"

namespace tutti::bench {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tutti-bench local --model Qwen3-0.6B --threads 2 --prompt-tokens 512 --output-tokens 64
  tutti-bench local --model Qwen3-0.6B --batch 8 --json
  tutti-bench tune --threads 2
  tutti-bench link
  tutti-bench engine --sequences 1,64,1024
  tutti-bench directory --trace mooncake_trace.jsonl
  tutti-bench speculation --model Qwen3-0.6B --script edits.jsonl

bench/README.md says what each figure means.)";

struct LocalFlags {
  LocalBenchOptions options;
  std::string cuda_graphs = "on";
  std::string cuda_early_kernels = "on";
  std::string tune = "auto";
  std::vector<std::string> loads;
  bool json = false;
};

void AddLocalSizes(FlagSet* set, LocalFlags* flags) {
  LocalBenchOptions& options = flags->options;
  set->Add({
      {.names = "-p,--prompt-tokens",
       .variable = &options.load.prompt_tokens,
       .help = "Random tokens per prompt",
       .show_default = true},
      {.names = "-o,--output-tokens",
       .variable = &options.load.output_tokens,
       .help = "Tokens to generate, at least 2",
       .show_default = true},
      {.names = "-b,--batch",
       .variable = &options.load.batch,
       .help = "Sequences that decode together",
       .check = IntegerIn(1, 4096),
       .show_default = true},
      {.names = "--temperature",
       .variable = &options.load.temperature,
       .help = "Of the tokens drawn; 0: the most likely one",
       .check = NumberIn(0, 100),
       .show_default = true},
      {.names = "--load",
       .variable = &flags->loads,
       .help = "PROMPT,SEQUENCES,OUTPUT or PROMPT,SEQUENCES,OUTPUT,TEMPERATURE, in the place of "
               "the four\n"
               "above; again: one load after the other, each with a report",
       .list = FlagList::kRepeated,
       .excludes = {"--prompt-tokens", "--batch", "--output-tokens", "--temperature"}},
      {.names = "--chunk-tokens",
       .variable = &options.chunk_tokens,
       .help = "Rows of a prompt in one step",
       .check = IntegerIn(1, 65536),
       .show_default = true},
      {.names = "--runs",
       .variable = &options.runs,
       .help = "Runs to take the median of",
       .check = IntegerIn(1, 1000),
       .show_default = true},
      {.names = "--json", .variable = &flags->json, .help = "The report as JSON"},
  });
}

FlagSet* AddLocal(FlagSet* program, LocalFlags* flags) {
  LocalBenchOptions& options = flags->options;
  FlagSet* set = program->AddCommand("local", "The forward pass alone, in this process");
  set->Add({
      {.names = "--model",
       .variable = &options.model,
       .help = "Folder of a HuggingFace checkpoint",
       .environment = "TUTTI_MODEL",
       .required = true},
      {.names = "--device",
       .variable = &options.device,
       .help = "cpu, cuda:N or reference",
       .show_default = true},
      {.names = "--cuda-graphs",
       .variable = &flags->cuda_graphs,
       .help = "on, or off: every kernel of a GPU starts by itself",
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--cuda-early-kernels",
       .variable = &flags->cuda_early_kernels,
       .help = "on, or off: no kernel of a GPU begins before the one before has ended",
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--numerics-class",
       .variable = &options.numerics_class,
       .help = "Unset: the machine's best"},
      {.names = "--tune",
       .variable = &flags->tune,
       .help = "auto: kernels are tuned to the processor first, as a worker does; off",
       .check = OneOf("auto,off"),
       .show_default = true},
      {.names = "-t,--threads",
       .variable = &options.threads,
       .help = "Compute threads; 0: every CPU",
       .check = IntegerIn(0, 1024),
       .show_default = true},
  });
  AddLocalSizes(set, flags);
  return set;
}

int RunLocal(LocalFlags flags) {
  flags.options.cuda_graphs = flags.cuda_graphs == "on";
  flags.options.cuda_early_kernels = flags.cuda_early_kernels == "on";
  flags.options.tune = flags.tune == "auto";
  std::vector<LocalLoad> loads;
  for (const std::string& text : flags.loads) {
    const auto load = ParseLocalLoad(text);
    if (!load.ok()) return client::Fail(Annotate(load.status(), "--load"));
    loads.push_back(*load);
  }
  if (loads.empty()) loads.push_back(flags.options.load);
  kernels::LoadGpuKernelsAtOnce(flags.options.numerics_class);
  const absl::Status status =
      RunLocalBench(flags.options, loads, [&](const LocalBenchReport& report) {
        std::string text = flags.json ? LocalBenchToJson(report) : RenderLocalBench(report);
        if (text.back() == '\n') text.pop_back();
        return client::PrintLine(text);
      });
  return status.ok() ? client::kExitOk : client::Fail(status);
}

FlagSet* AddTune(FlagSet* program, TuneBenchOptions* options) {
  FlagSet* set = program->AddCommand(
      "tune", "Every value of every choice that workers make at start, measured");
  set->Add({
      {.names = "-t,--threads",
       .variable = &options->threads,
       .help = "Compute threads; 0: every CPU",
       .check = IntegerIn(0, 512),
       .show_default = true},
      {.names = "--instruction-set",
       .variable = &options->instruction_set,
       .help = "avx2, avx512, avx512bf16, amx, avx512-block…; unset: the machine's best"},
      {.names = "--seconds",
       .variable = &options->seconds,
       .help = "Of measurement, together; a worker takes 1.2",
       .check = Positive(),
       .show_default = true},
      {.names = "--rounds",
       .variable = &options->rounds,
       .help = "Times that each value is measured, at most",
       .check = IntegerIn(1, 1000),
       .show_default = true},
      {.names = "--json", .variable = &options->json, .help = "The measurements as JSON"},
  });
  return set;
}

FlagSet* AddLink(FlagSet* program, LinkBenchOptions* options) {
  FlagSet* set = program->AddCommand(
      "link", "Links between processes: round trips, bytes and frames per second");
  set->Add({
      {.names = "--round-trips",
       .variable = &options->round_trips,
       .help = "Frames sent and answered one by one",
       .check = Positive(),
       .show_default = true},
      {.names = "--payload-bytes",
       .variable = &options->round_trip_payload_bytes,
       .help = "Payload of such a frame",
       .check = Positive(),
       .show_default = true},
      {.names = "--chunks",
       .variable = &options->chunks,
       .help = "Chunks of the largest size, sent as fast as they go",
       .check = Positive(),
       .show_default = true},
      {.names = "--frames",
       .variable = &options->frames,
       .help = "Frames without payload, sent as fast as they go",
       .check = Positive(),
       .show_default = true},
  });
  return set;
}

FlagSet* AddEngine(FlagSet* program, EngineBenchOptions* options) {
  FlagSet* set =
      program->AddCommand("engine", "The coordinator's decisions alone: microseconds per token");
  set->Add({
      {.names = "--sequences",
       .variable = &options->sequences,
       .help = "Live at once; one measurement for each",
       .show_default = true,
       .list = FlagList::kCommas},
      {.names = "--pipelines",
       .variable = &options->pipelines,
       .help = "That share them; one measurement for each",
       .show_default = true,
       .list = FlagList::kCommas},
      {.names = "--stages",
       .variable = &options->stages,
       .help = "Stages of a pipeline",
       .show_default = true},
      {.names = "--running",
       .variable = &options->running,
       .help = "Sequences of a pipeline that run at once, the others wait; 0: all run",
       .show_default = true},
      {.names = "-p,--prompt-tokens",
       .variable = &options->prompt_tokens,
       .help = "Tokens per prompt",
       .show_default = true},
      {.names = "-o,--output-tokens",
       .variable = &options->output_tokens,
       .help = "Tokens of an answer, after which another request arrives; 0: without end",
       .show_default = true},
      {.names = "--guesses",
       .variable = &options->guesses,
       .help = "Next tokens are guessed, and answers repeat themselves"},
      {.names = "--seconds",
       .variable = &options->seconds,
       .help = "Length of each measurement",
       .show_default = true},
      {.names = "--json", .variable = &options->json, .help = "The measurements as JSON"},
  });
  return set;
}

FlagSet* AddDirectory(FlagSet* program, DirectoryBenchOptions* options) {
  FlagSet* set = program->AddCommand(
      "directory", "What prefix reuse finds in a recorded load, replayed in virtual time");
  set->Add({
      {.names = "--trace",
       .variable = &options->trace,
       .help = "Requests in Mooncake's format, one JSON object a line",
       .required = true},
      {.names = "--skip-broken",
       .variable = &options->skip_broken,
       .help = "Leave broken lines out, and say which"},
      {.names = "--pipelines",
       .variable = &options->pipelines,
       .help = "One measurement for each",
       .show_default = true,
       .list = FlagList::kCommas},
      {.names = "--pool-percent",
       .variable = &options->pool_percent,
       .help = "KV room of all pipelines, of the different blocks in the trace",
       .show_default = true,
       .list = FlagList::kCommas},
      {.names = "--prefill-tokens-per-second",
       .variable = &options->prefill_tokens_per_second,
       .help = "Of all pipelines together",
       .show_default = true},
      {.names = "--itl-ms",
       .variable = &options->itl_ms,
       .help = "Time of an output token",
       .show_default = true},
      {.names = "--json", .variable = &options->json, .help = "The measurements as JSON"},
  });
  return set;
}

FlagSet* AddSpeculation(FlagSet* program, SpeculationBenchOptions* options) {
  FlagSet* set = program->AddCommand(
      "speculation", "Answers that are known beforehand, with guesses and without, in turn");
  set->Add({
      {.names = "--model",
       .variable = &options->model,
       .help = "Folder of a HuggingFace checkpoint with its tokenizer",
       .environment = "TUTTI_MODEL",
       .required = true},
      {.names = "--script",
       .variable = &options->script,
       .help = "A JSON object in each line: {\"name\": …, \"prompt\": TEXT, \"answer\": TEXT}",
       .required = true},
      {.names = "-t,--threads",
       .variable = &options->threads,
       .help = "Compute threads; 0: every CPU",
       .check = IntegerIn(0, 1024),
       .show_default = true},
      {.names = "--streams",
       .variable = &options->streams,
       .help = "Of the same script at once",
       .check = IntegerIn(1, 256),
       .show_default = true},
      {.names = "--beside",
       .variable = &options->beside,
       .help = "Streams more that have no guesses, and the time between their tokens is told",
       .check = IntegerIn(0, 255),
       .show_default = true},
      {.names = "--rounds",
       .variable = &options->rounds,
       .help = "Each with and without, of which medians are told",
       .check = IntegerIn(1, 1000),
       .show_default = true},
      {.names = "--stages",
       .variable = &options->stages,
       .help = "Timed as if each had a machine like this one, without links",
       .check = IntegerIn(1, 64),
       .show_default = true},
      {.names = "--answer-tokens",
       .variable = &options->answer_tokens,
       .help = "Answers are cut to so many; 0: none is",
       .check = IntegerIn(0, 1 << 20),
       .show_default = true},
      {.names = "--any-time",
       .variable = &options->any_time,
       .help = "Guess whatever time it takes, and compare with what the text alone says"},
  });
  return set;
}

int Main(int argc, char** argv) {
  FlagSet program("tutti-bench", "Measures the parts of Tutti.");
  program.AddVersion(BuildStamp());
  program.AddFooter(kFooter);
  LocalFlags local_flags;
  const FlagSet* local = AddLocal(&program, &local_flags);
  TuneBenchOptions tune_options;
  const FlagSet* tune = AddTune(&program, &tune_options);
  LinkBenchOptions link_options;
  const FlagSet* link = AddLink(&program, &link_options);
  EngineBenchOptions engine_options;
  const FlagSet* engine = AddEngine(&program, &engine_options);
  DirectoryBenchOptions directory_options;
  const FlagSet* directory = AddDirectory(&program, &directory_options);
  SpeculationBenchOptions speculation_options;
  const FlagSet* speculation = AddSpeculation(&program, &speculation_options);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (local->chosen()) return RunLocal(local_flags);
  if (tune->chosen()) return RunTuneBench(tune_options);
  if (link->chosen()) return RunLinkBench(link_options);
  if (engine->chosen()) return RunEngineBench(engine_options);
  if (directory->chosen()) return RunDirectoryBench(directory_options);
  if (speculation->chosen()) return RunSpeculationBench(speculation_options);
  return kExitUsageError;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
