#include "placement/placement_prediction.h"

#include <algorithm>

#include "placement/placement_split.h"

namespace tutti::placement {

double PredictStageSeconds(const StagePlacement& stage, const StepLoad& load,
                           const LinkSpeed& link) {
  if (!stage.speed.known()) return 0;
  return StageSeconds(stage.cost, stage.num_layers, load, stage.speed,
                      link.known() ? link : kNominalLink);
}

PlacementPrediction Predict(const Placement& placement, const PlacementOptions& options,
                            int64_t context) {
  const LinkSpeed link = options.link.known() ? options.link : kNominalLink;
  const FullLoad load = LoadOf(options, context, placement.num_blocks, placement.stages.size());
  const double prompt = options.max_batch_tokens;
  PlacementPrediction result{.known = true, .depth = load.step.depth, .rows = load.step.rows};
  double slowest = 0;
  double slowest_prefill = 0;
  double round = 0;
  for (const StagePlacement& stage : placement.stages) {
    result.known &= stage.speed.known();
    result.link_assumed |=
        !options.link.known() && (placement.stages.size() > 1 || stage.ranks.size() > 1);
    StagePrediction one{
        .seconds = PredictStageSeconds(stage, load.step, link),
        .prefill_seconds =
            PredictStageSeconds(stage, {.rows = prompt, .depth = load.step.depth / 2}, link),
        .hop_bytes_per_token = stage.cost.hop_bytes,
        .collective_bytes_per_token = stage.num_layers * stage.cost.collective_bytes};
    slowest = std::max(slowest, one.seconds);
    slowest_prefill = std::max(slowest_prefill, one.prefill_seconds);
    round += one.seconds + HopSeconds(stage.cost, load.step.rows, link);
    result.step_seconds += PredictStageSeconds(stage, {.rows = 1, .depth = load.step.depth}, link) +
                           HopSeconds(stage.cost, 1, link);
    result.stages.push_back(one);
  }
  if (!result.known) {
    result.step_seconds = 0;
    return result;
  }
  result.tokens_per_second = std::min(load.step.rows / slowest, load.running / round);
  result.prefill_tokens_per_second = prompt / slowest_prefill;
  return result;
}

}  // namespace tutti::placement
