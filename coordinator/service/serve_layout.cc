#include "coordinator/service/serve_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "model/partition.h"
#include "placement/device_map.h"
#include "placement/layout_flags.h"
#include "program/group_place.h"
#include "program/shared_flags.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {

// The same names and meanings as those of `tutti plan`.
void AddLayoutFlags(FlagSet* set, LayoutFlags* flags, EngineOptions* engine) {
  set->Add({
      {.names = "--pipeline-parallel-size",
       .variable = &flags->stages,
       .help = absl::StrCat(
           HelpIn(kCoordinatorFlags, "--pipeline-parallel-size"),
           "; unset: what the device map says, LWS_GROUP_SIZE where a LeaderWorkerSet's controller "
           "has set it and no other size is given, or 1")},
      {.names = "--tensor-parallel-size",
       .variable = &flags->ranks,
       .help = HelpIn(kCoordinatorFlags, "--tensor-parallel-size")},
      {.names = "--expert-split",
       .variable = &flags->expert_split,
       .help = HelpIn(kCoordinatorFlags, "--expert-split"),
       .check = OneOf("width,expert"),
       .show_default = true},
      {.names = "--pipelines",
       .variable = &flags->pipelines,
       .help = "Copies of the model, each of as many stages; auto: as many as the workers allow",
       .show_default = true},
      {.names = "--spares",
       .variable = &engine->spares,
       .help =
           "Workers that --pipelines auto leaves idle: they load ahead, to take the place of one "
           "that is lost",
       .check = IntegerIn(0, static_cast<int64_t>(kWorkerLinksMax)),
       .show_default = true},
      {.names = "--layout",
       .variable = &flags->layout,
       .help = HelpIn(kCoordinatorFlags, "--layout"),
       .check = OneOf("auto")},
      {.names = "--device-map",
       .variable = &flags->device_map,
       .help = HelpIn(kCoordinatorFlags, "--device-map"),
       .environment = "TUTTI_DEVICE_MAP"},
      {.names = "--max-memory",
       .variable = &flags->max_memory,
       .help = HelpIn(kCoordinatorFlags, "--max-memory")},
      {.names = "--min-workers",
       .variable = &engine->min_workers,
       .help = absl::StrCat(HelpIn(kCoordinatorFlags, "--min-workers"), "; 0: no such number"),
       .check = IntegerIn(0, static_cast<int64_t>(kWorkerLinksMax)),
       .show_default = true},
  });
}

namespace {

// The number of stages, and of their ranks, as far as flags and device map say it.
absl::Status ReadSizes(const LayoutFlags& flags, EngineOptions* engine) {
  const std::string otherwise = flags.layout.empty() ? "1" : flags.layout;
  auto ranks = placement::ParseRanks(flags.ranks.empty() ? otherwise : flags.ranks);
  if (!ranks.ok()) return Annotate(ranks.status(), "--tensor-parallel-size");
  engine->num_ranks = ranks->num_ranks;
  engine->stage_ranks = std::move(ranks->stage_ranks);
  const auto pipelines = placement::ParseSize(flags.pipelines);
  if (!pipelines.ok()) return Annotate(pipelines.status(), "--pipelines");
  engine->num_pipelines = *pipelines;
  const auto given = static_cast<int32_t>(engine->stage_ranks.size());
  if (flags.stages.empty()) {
    // A mode of Accelerate makes as many stages as there are workers.
    const bool one = flags.device_map.empty() && flags.layout.empty();
    engine->num_stages = given > 0 ? given : one ? 1 : 0;
    const std::string group = PlaceInGroup().size;
    const bool other_sizes = engine->num_pipelines > 0 || engine->spares > 0;
    if (!one || !flags.ranks.empty() || other_sizes || group.empty()) return absl::OkStatus();
    const auto size = placement::ParseSize(group);
    if (!size.ok()) return Annotate(size.status(), kGroupSizeVariable);
    engine->num_stages = *size;
    return absl::OkStatus();
  }
  const auto stages = placement::ParseSize(flags.stages);
  if (!stages.ok()) return Annotate(stages.status(), "--pipeline-parallel-size");
  engine->num_stages = *stages;
  if (given == 0 || given == *stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--tensor-parallel-size ", flags.ranks, " is for ",
                                                 given, " stages, --pipeline-parallel-size is ",
                                                 flags.stages));
}

// Whether the model can be split as the flags say.
absl::Status CheckLayout(const LayoutFlags& flags, const model::ModelConfig& model,
                         const EngineOptions& engine) {
  if (!engine.device_map.stages.empty()) {
    if (flags.stages.empty() && flags.ranks.empty() && engine.num_pipelines <= 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--device-map FILE says itself how many stages there are and of how many workers, and is "
        "one pipeline; leave the sizes out");
  }
  if (engine.num_stages > model.num_layers) {
    // One that is larger than 1 without a flag is the group's.
    return absl::InvalidArgumentError(absl::StrCat(
        flags.stages.empty() && engine.stage_ranks.empty() ? kGroupSizeVariable
                                                           : "--pipeline-parallel-size",
        " ", engine.num_stages, ": the model has only ", model.num_layers,
        " layers, which is the most"));
  }
  if (engine.num_ranks > 0) TUTTI_RETURN_IF_ERROR(model::CheckRanks(model, engine.num_ranks));
  for (const int32_t ranks : engine.stage_ranks)
    TUTTI_RETURN_IF_ERROR(model::CheckRanks(model, ranks));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLayout(const LayoutFlags& flags, const model::ModelConfig& model,
                        EngineOptions* engine) {
  TUTTI_RETURN_IF_ERROR(ReadSizes(flags, engine));
  TUTTI_ASSIGN_OR_RETURN(engine->device_map,
                         placement::ReadDeviceMap(flags.device_map, model, /*num_devices=*/-1));
  for (const std::string& note : engine->device_map.notes) spdlog::info("device map: {}", note);
  if (!flags.max_memory.empty()) {
    auto limits = placement::ParseMaxMemory(flags.max_memory);
    if (!limits.ok()) return Annotate(limits.status(), "--max-memory");
    engine->max_memory = *std::move(limits);
  }
  return CheckLayout(flags, model, *engine);
}

}  // namespace tutti::coordinator
