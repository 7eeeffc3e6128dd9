// tutti-bench: how fast the parts are, each beside the limit it works against.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/build_info.h"
#include "bench/directory_bench.h"
#include "bench/engine_bench.h"
#include "bench/link_bench.h"
#include "bench/local.h"
#include "client/command.h"
#include "client/print.h"

namespace tutti::bench {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tutti-bench local --model Qwen3-0.6B --threads 2 --prompt-tokens 512 --output-tokens 64
  tutti-bench local --model Qwen3-0.6B --batch 8 --json
  tutti-bench link
  tutti-bench engine --sequences 1,64,1024
  tutti-bench directory --trace mooncake_trace.jsonl

bench/README.md says what each figure means.)";

struct LocalFlags {
  LocalBenchOptions options;
  std::string cuda_graphs = "on";
  std::string cuda_early_kernels = "on";
  bool json = false;
};

CLI::App* AddLocal(CLI::App* root, LocalFlags* flags) {
  LocalBenchOptions& options = flags->options;
  CLI::App* app = root->add_subcommand("local", "The forward pass alone, in this process");
  app->add_option("--model", options.model, "Folder of a HuggingFace checkpoint")
      ->required()
      ->envname("TUTTI_MODEL");
  app->add_option("--device", options.device, "cpu, cuda:N or reference")->capture_default_str();
  app->add_option("--cuda-graphs", flags->cuda_graphs,
                  "on, or off: every kernel of a GPU starts by itself")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app->add_option("--cuda-early-kernels", flags->cuda_early_kernels,
                  "on, or off: no kernel of a GPU begins before the one before has ended")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app->add_option("--numerics-class", options.numerics_class, "Unset: the machine's best");
  app->add_option("-t,--threads", options.threads, "Compute threads; 0: every CPU")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("-p,--prompt-tokens", options.prompt_tokens, "Random tokens per prompt")
      ->capture_default_str();
  app->add_option("-o,--output-tokens", options.output_tokens, "Tokens to generate, at least 2")
      ->capture_default_str();
  app->add_option("-b,--batch", options.batch, "Sequences that decode together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_option("--chunk-tokens", options.chunk_tokens, "Rows of a prompt in one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--runs", options.runs, "Runs to take the median of")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_flag("--json", flags->json, "The report as JSON");
  return app;
}

int RunLocal(LocalFlags flags) {
  flags.options.cuda_graphs = flags.cuda_graphs == "on";
  flags.options.cuda_early_kernels = flags.cuda_early_kernels == "on";
  const auto report = RunLocalBench(flags.options);
  if (!report.ok()) return client::Fail(report.status());
  std::string text = flags.json ? LocalBenchToJson(*report) : RenderLocalBench(*report);
  if (text.back() == '\n') text.pop_back();
  const absl::Status written = client::PrintLine(text);
  return written.ok() ? client::kExitOk : client::Fail(written);
}

CLI::App* AddLink(CLI::App* root, LinkBenchOptions* options) {
  CLI::App* app = root->add_subcommand(
      "link", "Links between processes: round trips, bytes and frames per second");
  const auto add = [app](const char* name, auto& value, const char* help) {
    app->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  add("--round-trips", options->round_trips, "Frames sent and answered one by one");
  add("--payload-bytes", options->round_trip_payload_bytes, "Payload of such a frame");
  add("--chunks", options->chunks, "Chunks of the largest size, sent as fast as they go");
  add("--frames", options->frames, "Frames without payload, sent as fast as they go");
  return app;
}

CLI::App* AddEngine(CLI::App* root, EngineBenchOptions* options) {
  CLI::App* app =
      root->add_subcommand("engine", "The coordinator's decisions alone: microseconds per token");
  app->add_option("--sequences", options->sequences, "Live at once; one measurement for each")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--pipelines", options->pipelines, "That share them; one measurement for each")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--stages", options->stages, "Stages of a pipeline")->capture_default_str();
  app->add_option("-p,--prompt-tokens", options->prompt_tokens, "Tokens per prompt")
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "Length of each measurement")
      ->capture_default_str();
  app->add_flag("--json", options->json, "The measurements as JSON");
  return app;
}

CLI::App* AddDirectory(CLI::App* root, DirectoryBenchOptions* options) {
  CLI::App* app = root->add_subcommand(
      "directory", "What prefix reuse finds in a recorded load, replayed in virtual time");
  app->add_option("--trace", options->trace,
                  "Requests in Mooncake's format, one JSON object a line")
      ->required();
  app->add_flag("--skip-broken", options->skip_broken, "Leave broken lines out, and say which");
  app->add_option("--pipelines", options->pipelines, "One measurement for each")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--pool-percent", options->pool_percent,
                  "KV room of all pipelines, of the different blocks in the trace")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--prefill-tokens-per-second", options->prefill_tokens_per_second,
                  "Of all pipelines together")
      ->capture_default_str();
  app->add_option("--itl-ms", options->itl_ms, "Time of an output token")->capture_default_str();
  app->add_flag("--json", options->json, "The measurements as JSON");
  return app;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  CLI::App app("Measures the parts of Tutti.", "tutti-bench");
  app.set_version_flag("--version", std::string(tutti::BuildStamp()));
  app.require_subcommand(1);
  app.footer(tutti::bench::kFooter);
  tutti::bench::LocalFlags local_flags;
  tutti::bench::LinkBenchOptions link_options;
  const CLI::App* local = tutti::bench::AddLocal(&app, &local_flags);
  const CLI::App* link = tutti::bench::AddLink(&app, &link_options);
  tutti::bench::EngineBenchOptions engine_options;
  const CLI::App* engine = tutti::bench::AddEngine(&app, &engine_options);
  tutti::bench::DirectoryBenchOptions directory_options;
  const CLI::App* directory = tutti::bench::AddDirectory(&app, &directory_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tutti::client::kExitOk : tutti::client::kExitUsage;
  }
  if (local->parsed()) return tutti::bench::RunLocal(local_flags);
  if (link->parsed()) return tutti::bench::RunLinkBench(link_options);
  if (engine->parsed()) return tutti::bench::RunEngineBench(engine_options);
  if (directory->parsed()) return tutti::bench::RunDirectoryBench(directory_options);
  return tutti::client::kExitUsage;
}
