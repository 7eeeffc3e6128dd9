// tutti plan: says before anything is loaded what each device will hold, and refuses what cannot
// fit.
#include "client/command.h"
#include "client/format.h"
#include "client/plan.h"
#include "client/print.h"

namespace tutti {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tutti plan --model Qwen3-32B --devices 4x24GiB
  tutti plan --model Qwen3-8B/config.json --devices 2x8GiB,1x24GiB --max-model-len 8192
  tutti plan --model Qwen3-0.6B --devices 2x2GiB --layers 10,18 --json

Only config.json is read: DIR may hold nothing else. Exit codes: 0 it fits, 1 it does not (the
reason and the smallest thing that would are told), 2 bad flags or a bad configuration.)";

struct PlanFlags {
  PlanRequest request;
  std::string devices;
  bool json = false;
};

int RunPlan(PlanFlags flags) {
  auto devices = ParseDevices(flags.devices);
  if (!devices.ok()) return Fail(Annotate(devices.status(), "--devices"));
  flags.request.devices = *std::move(devices);
  const auto report = MakePlan(flags.request);
  if (!report.ok()) return Fail(report.status());
  std::string text = flags.json ? PlanToJson(*report) : RenderPlan(*report);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const absl::Status written = PrintLine(text);
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakePlanCommand(CLI::App* root) {
  CLI::App* app = root->add_subcommand("plan", "Show what each device would hold, or why not");
  auto flags = std::make_shared<PlanFlags>();
  PlacementOptions& options = flags->request.options;
  app->add_option("--model", flags->request.model, "Folder with config.json, or that file")
      ->required()
      ->envname("TUTTI_MODEL");
  app->add_option("-d,--devices", flags->devices, "Memory per device: 4x24GiB,1x48GiB")
      ->required()
      ->envname("TUTTI_DEVICES");
  app->add_option("--pipeline-parallel-size", options.num_stages, "Stages; 0: one per device")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("--layers", options.layers, "Layers of each stage, instead of the best split")
      ->delimiter(',');
  app->add_option("--max-model-len", options.max_model_len,
                  "Longest sequence; 0: the model's context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--max-num-seqs", options.max_sequences, "Sequences running at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-batch-tokens", options.max_batch_tokens, "Rows of the largest step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--block-size", options.block_size, "KV slots per block")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--kv-tokens", options.kv_tokens_max,
                  "Limit the KV room to so many tokens; 0: as many as fit and can be used")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--min-kv-tokens", options.kv_tokens_min, "Refuse a plan with less KV room")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_flag("--json", flags->json, "The plan as JSON");
  app->footer(kExamples);
  return {app, [flags] { return RunPlan(*flags); }};
}

}  // namespace tutti
