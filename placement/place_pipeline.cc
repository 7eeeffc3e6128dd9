#include "placement/place_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "placement/placement_cost.h"
#include "placement/placement_modes.h"
#include "placement/placement_refusal.h"
#include "placement/placement_split.h"

namespace tutti::placement {
namespace {

// Ranks of every stage, checked against model and devices.
absl::StatusOr<std::vector<int32_t>> StageRanks(const model::ModelConfig& model, size_t num_devices,
                                                const PlacementOptions& options) {
  std::vector<int32_t> ranks = options.stage_ranks;
  const int32_t each = std::max(1, options.num_ranks);
  if (ranks.empty()) {
    const size_t stages =
        options.num_stages > 0 ? static_cast<size_t>(options.num_stages) : num_devices / each;
    ranks.assign(std::max<size_t>(stages, num_devices == 0 ? 0 : 1), each);
  } else if (options.num_stages > 0 && ranks.size() != static_cast<size_t>(options.num_stages)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ranks are given for ", ranks.size(), " stages, the pipeline has ", options.num_stages));
  }
  for (const int32_t count : ranks) TUTTI_RETURN_IF_ERROR(model::CheckRanks(model, count));
  const int64_t needed = std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
  if (ranks.empty() || needed > static_cast<int64_t>(num_devices)) {
    return absl::InvalidArgumentError(absl::StrCat(
        num_devices, " devices for ", ranks.size(), " stages",
        needed > static_cast<int64_t>(ranks.size()) ? absl::StrCat(", which take ", needed) : "",
        "; give more devices, or fewer stages or ranks"));
  }
  if (static_cast<int64_t>(ranks.size()) > model.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat(ranks.size(), " stages, but the model has only ",
                                                   model.num_layers, " layers"));
  }
  return ranks;
}

std::vector<StageGroup> GroupsOf(const std::vector<int32_t>& ranks) {
  std::vector<StageGroup> groups;
  int64_t next = 0;
  for (const int32_t count : ranks) {
    StageGroup& group = groups.emplace_back(count);
    std::iota(group.begin(), group.end(), next);
    next += count;
  }
  return groups;
}

absl::Status CheckOverrides(const model::ModelConfig& model, const std::vector<int32_t>& layers,
                            size_t num_stages) {
  if (layers.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat("the device map has ", layers.size(),
                                                   " stages, the pipeline ", num_stages,
                                                   "; give as many"));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the device map gives stage ", i, " ", layers[i], " layers"));
    }
  }
  const int64_t total = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (total == model.num_layers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the device map has ", total,
                                                 " layers, the model ", model.num_layers,
                                                 "; give numbers that add up to these"));
}

absl::StatusOr<ModeSplit> SplitAsGiven(const model::ModelConfig& model,
                                       const std::vector<DeviceSpec>& devices,
                                       std::vector<StageGroup> groups,
                                       const PlacementOptions& options, const BlockRange& wanted,
                                       StageCosts* costs) {
  TUTTI_RETURN_IF_ERROR(CheckOverrides(model, options.layers, groups.size()));
  const std::vector<StageSlot> slots = SlotsOf(groups, devices, costs);
  Split split{.layers = options.layers, .blocks = wanted.most};
  int64_t first = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const FilledSlot filled(slots[i], first, split.layers[i]);
    first += split.layers[i];
    split.blocks = std::min(split.blocks, BlocksThatFit(filled.slot(), split.layers[i]));
    if (split.blocks < wanted.least) {
      return StageLacks(devices, groups, i, filled.slot(), split.layers[i], wanted.least, options);
    }
  }
  return ModeSplit{.groups = std::move(groups), .split = std::move(split)};
}

}  // namespace

int64_t SmallestStageBytes(const model::ModelConfig& model, const PlacementOptions& options,
                           DeviceKind kind) {
  if (!model::CheckDeviceKind(model, kind).ok()) return 0;  // refused where the pipeline is planned
  int32_t ranks = std::max(1, options.num_ranks);
  for (const int32_t count : options.stage_ranks) ranks = std::max(ranks, count);
  if (!model::CheckRanks(model, ranks).ok()) ranks = 1;  // refused where the pipeline is planned
  StageCosts costs(model, options, kLargestLayer);
  const RankCost& middle = costs.Of(ranks, false, false, kind).ranks.front();
  int64_t least = middle.layer_weights;
  for (size_t i = 0; i + 1 < middle.weights_before.size(); ++i) {
    least = std::min(least, middle.weights_before[i + 1] - middle.weights_before[i]);
  }
  return middle.activations + least + middle.layer_block;
}

absl::StatusOr<Placement> PlacePipeline(const model::ModelConfig& model,
                                        const std::vector<DeviceSpec>& devices,
                                        const PlacementOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckDeviceKinds(model, options, devices));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                         StageRanks(model, devices.size(), options));
  const std::vector<StageGroup> groups = GroupsOf(ranks);
  const BlockRange wanted = BlocksWanted(model, options);
  if (!options.layers.empty()) {
    StageCosts costs(model, options, kLargestLayer);
    TUTTI_ASSIGN_OR_RETURN(const ModeSplit given,
                           SplitAsGiven(model, devices, groups, options, wanted, &costs));
    return WritePlacement(devices, given, options, &costs);
  }
  for (int estimate = 0; estimate < kLayerEstimates; ++estimate) {
    StageCosts costs(model, options, estimate);
    auto chosen =
        SplitByMode(model, WithComparableSpeeds(devices), groups, options, wanted, &costs);
    if (!chosen.has_value()) break;
    if (CountLayers(devices, wanted, &costs, &*chosen)) {
      return WritePlacement(devices, *chosen, options, &costs);
    }
  }
  return DoesNotFit(model, devices, groups, options, wanted.least);
}

}  // namespace tutti::placement
