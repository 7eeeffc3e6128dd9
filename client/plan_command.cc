// tutti plan: shows before anything is loaded which layers and how much memory each device will
// hold, and refuses a model that cannot fit.
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "client/command.h"
#include "client/format.h"
#include "client/plan.h"
#include "client/plan_devices.h"
#include "client/print.h"
#include "model/hub_cache.h"
#include "placement/layout_flags.h"
#include "program/machine.h"

namespace tutti::client {
namespace {

constexpr const char* kPlanExamples = R"(
Examples:
  tutti plan --model Qwen3-32B --devices 4x24GiB
  tutti plan --model Qwen3-8B/config.json --devices 2x8GiB,1x24GiB --max-model-len 8192
  tutti plan --model Qwen3-32B --devices cuda:4x24GiB
  tutti plan --model Qwen3-0.6B --devices 2x2GiB --layers 10,18 --json
  tutti plan --model Qwen1.5-72B-Chat --devices cuda:4x80GiB@2TB/s@312Tflop/s \
    --link 100Gbit/s,5us --layout auto
  tutti plan --model Qwen3-8B --max-memory 0=10GiB,1=20GiB --device-map balanced

Only config.json is needed: DIR may hold nothing else. Exit codes: 0 it fits, perhaps with room for
less than one full context, which a note says (with --max-model-len, that room is demanded); 1 it
does not (the reason and the smallest change that would make it fit are printed), 2 bad flags or
configuration.)";

struct PlanFlags {
  PlanRequest request;
  std::string revision;
  std::string devices;
  std::string max_memory;
  std::string link;
  std::string stages;
  std::string ranks;      // unset: 1
  std::string pipelines;  // unset: 1
  std::string layout;
  std::string expert_split = "width";
  bool json = false;
};

// Stages fill the devices unless their number is given or left to the search.
absl::Status ReadSizes(PlanFlags* flags) {
  placement::ClusterOptions& options = flags->request.options;
  placement::PlacementOptions& placement = options.placement;
  const std::string otherwise = flags->layout.empty() ? "1" : flags->layout;
  auto ranks = placement::ParseRanks(flags->ranks.empty() ? otherwise : flags->ranks);
  if (!ranks.ok()) return Annotate(ranks.status(), "--tensor-parallel-size");
  placement.num_ranks = ranks->num_ranks;
  placement.stage_ranks = std::move(ranks->stage_ranks);
  const auto pipelines =
      placement::ParseSize(flags->pipelines.empty() ? otherwise : flags->pipelines);
  if (!pipelines.ok()) return Annotate(pipelines.status(), "--pipelines");
  options.num_pipelines = *pipelines;
  flags->request.whole_experts = flags->expert_split == "expert";
  if (!flags->stages.empty()) {
    const auto stages = placement::ParseSize(flags->stages);
    if (!stages.ok()) return Annotate(stages.status(), "--pipeline-parallel-size");
    placement.num_stages = *stages;
    return absl::OkStatus();
  }
  const bool given = !placement.layers.empty() || !placement.stage_ranks.empty() ||
                     !flags->request.device_map.empty();
  if (given || placement.num_ranks == 0 || options.num_pipelines == 0) return absl::OkStatus();
  const size_t devices = flags->request.max_memory.empty() ? flags->request.devices.size()
                                                           : flags->request.max_memory.size();
  placement.num_stages = std::max<int32_t>(
      1, static_cast<int32_t>(devices) / (placement.num_ranks * options.num_pipelines));
  return absl::OkStatus();
}

// Without --devices, the limits stand for the devices.
absl::Status ReadDevices(PlanFlags* flags) {
  PlanRequest& request = flags->request;
  if (!flags->max_memory.empty()) {
    auto limits = placement::ParseMaxMemory(flags->max_memory);
    if (!limits.ok()) return Annotate(limits.status(), "--max-memory");
    request.max_memory = *std::move(limits);
  }
  if (!flags->devices.empty()) {
    auto devices = ParseDeviceSpecs(flags->devices);
    if (!devices.ok()) return Annotate(devices.status(), "--devices");
    request.devices = *std::move(devices);
  } else if (request.max_memory.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "give --devices, or --max-memory for each of them; of this machine alone, what "
        "is free: --devices 1x",
        AvailableMemoryBytes() >> 20, "MiB"));
  }
  for (size_t i = 0; flags->devices.empty() && i < request.max_memory.size(); ++i) {
    const auto found = request.max_memory.find(absl::StrCat(i));
    if (found == request.max_memory.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--max-memory without --devices must number the devices from 0; there is no ", i));
    }
    request.devices.push_back(
        {.name = absl::StrCat("device ", i), .memory_bytes = found->second, .speed = {}});
  }
  if (flags->link.empty()) return absl::OkStatus();
  const auto link = ParseLink(flags->link);
  if (!link.ok()) return Annotate(link.status(), "--link");
  request.options.placement.link = *link;
  return absl::OkStatus();
}

absl::Status FindPlanModels(PlanFlags* flags) {
  PlanRequest& request = flags->request;
  std::error_code error;
  if (!std::filesystem::is_regular_file(request.model, error)) {
    TUTTI_ASSIGN_OR_RETURN(request.model, model::FindModel(request.model, flags->revision));
  }
  std::string& draft = request.draft_model;
  if (draft.empty() || std::filesystem::is_regular_file(draft, error)) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(draft, model::FindModel(draft, "", "--draft-model"));
  return absl::OkStatus();
}

int RunPlan(PlanFlags flags) {
  placement::PlacementOptions& placement = flags.request.options.placement;
  // A length that is given is meant to be used.
  placement.kv_tokens_min = std::max<int64_t>(placement.kv_tokens_min, placement.max_model_len);
  if (const absl::Status found = FindPlanModels(&flags); !found.ok()) {
    Fail(found);
    return kExitUsage;
  }
  if (const absl::Status read = ReadDevices(&flags); !read.ok()) return Fail(read);
  if (const absl::Status read = ReadSizes(&flags); !read.ok()) return Fail(read);
  const auto report = MakePlan(flags.request);
  if (!report.ok()) {
    // Whatever is not a lack of room is in the flags or the files they name.
    Fail(report.status());
    return absl::IsResourceExhausted(report.status()) ? kExitFailure : kExitUsage;
  }
  std::string text = flags.json ? PlanToJson(*report) : RenderPlan(*report);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const absl::Status written = PrintLine(text);
  return written.ok() ? kExitOk : Fail(written);
}

void AddPlanFlags(FlagSet* set, PlanFlags* flags) {
  set->Add({
      {.names = "--model",
       .variable = &flags->request.model,
       .help = "Folder with config.json, that file, or a name in the hub's cache",
       .required = true},
      {.names = "--revision", .variable = &flags->revision, .help = model::kRevisionHelp},
      {.names = "--draft-model",
       .variable = &flags->request.draft_model,
       .help = "A smaller checkpoint, named likewise, that the last stage holds besides"},
      {.names = "-d,--devices",
       .variable = &flags->devices,
       .help = "Per device its memory, and if known reading and computing speed: "
               "4x24GiB,1x80GiB@2TB/s@312Tflop/s. GPUs: cuda:4x24GiB, with all the memory they "
               "have; others are taken for CPUs, with what workers on them may use"},
      {.names = "--max-memory",
       .variable = &flags->max_memory,
       .help = "What of each device may be used: 0=20GiB,1=40GiB; others are left out"},
      {.names = "--link",
       .variable = &flags->link,
       .help = "Between any two devices: 25Gbit/s,20us"},
      {.names = "--device-map",
       .variable = &flags->request.device_map,
       .help = "auto, balanced, balanced_low_0, sequential, or a HuggingFace device map (JSON)"},
      {.names = "--pipeline-parallel-size",
       .variable = &flags->stages,
       .help = "Stages, or auto; by default as many as the devices make"},
      {.names = "--tensor-parallel-size",
       .variable = &flags->ranks,
       .help = "Ranks of every stage, or auto, or of each stage: 1,2; unset: 1"},
      {.names = "--pipelines",
       .variable = &flags->pipelines,
       .help = "Copies of the model, or auto; unset: 1"},
      {.names = "--layout",
       .variable = &flags->layout,
       .help = "auto: the three sizes are auto unless given",
       .check = OneOf("auto")},
      {.names = "--expert-split",
       .variable = &flags->expert_split,
       .help = "What ranks share of a mixture's experts: width, or expert: whole ones",
       .check = OneOf("width,expert"),
       .show_default = true},
      {.names = "--quantize",
       .variable = &flags->request.quantise.scheme,
       .help = "Codes made while workers load it: int8, or int4-g128"},
      {.names = "--quantize-head",
       .variable = &flags->request.quantise.head,
       .help = "The head too"},
      {.names = "--cublas",
       .variable = &flags->request.cublas,
       .help = "The GPUs compute in a class that multiplies many rows by cuBLASLt, which takes "
               "memory of its own"},
      {.names = "--kept-rows",
       .variable = &flags->request.kept_rows_bytes,
       .help = "Memory of each CPU for the rows that it has sent on, such as 2GiB; unset: what "
               "placement leaves",
       .check = IsByteCount()},
  });
}

void AddSizeFlags(FlagSet* set, placement::PlacementOptions* options) {
  set->Add({
      {.names = "--layers",
       .variable = &options->layers,
       .help = "Layers of each stage, instead of the best split",
       .list = FlagList::kCommas},
      {.names = "--max-model-len",
       .variable = &options->max_model_len,
       .help = "Longest sequence, for which there must be room; 0: the model's context, for "
               "which there need not be",
       .check = NotNegative(),
       .show_default = true},
      {.names = "--max-num-seqs",
       .variable = &options->max_sequences,
       .help = "Sequences running at once",
       .check = Positive(),
       .show_default = true},
      {.names = "--max-batch-tokens",
       .variable = &options->max_batch_tokens,
       .help = "Rows of the largest step",
       .check = Positive(),
       .show_default = true},
      {.names = "--block-size",
       .variable = &options->block_size,
       .help = "KV slots per block",
       .check = Positive(),
       .show_default = true},
      {.names = "--kv-tokens",
       .variable = &options->kv_tokens_max,
       .help = "Limit the KV room to so many tokens; 0: as many as fit and can be used",
       .check = NotNegative(),
       .show_default = true},
      {.names = "--min-kv-tokens",
       .variable = &options->kv_tokens_min,
       .help = "Refuse a plan with less KV room",
       .check = NotNegative(),
       .show_default = true},
  });
}

}  // namespace

Command MakePlanCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("plan", "Show what each device would hold, or why not");
  auto flags = std::make_shared<PlanFlags>();
  AddPlanFlags(set, flags.get());
  AddSizeFlags(set, &flags->request.options.placement);
  set->Add({{.names = "--json", .variable = &flags->json, .help = "The plan as JSON"}});
  set->AddFooter(kPlanExamples);
  return {set, [flags] { return RunPlan(*flags); }};
}

}  // namespace tutti::client
