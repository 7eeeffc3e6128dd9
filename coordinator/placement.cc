#include "coordinator/placement.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/placement_cost.h"
#include "coordinator/placement_modes.h"
#include "coordinator/placement_refusal.h"
#include "coordinator/placement_split.h"
#include "model/partition.h"

namespace tutti {
namespace {

// Ranks of every stage, checked against model and devices.
absl::StatusOr<std::vector<int32_t>> StageRanks(const ModelConfig& model, size_t num_devices,
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
  for (const int32_t count : ranks) TUTTI_RETURN_IF_ERROR(CheckRanks(model, count));
  const int64_t needed = std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
  if (ranks.empty() || needed > static_cast<int64_t>(num_devices)) {
    return absl::InvalidArgumentError(absl::StrCat(
        num_devices, " devices for ", ranks.size(), " stages",
        needed > static_cast<int64_t>(ranks.size()) ? absl::StrCat(", which take ", needed) : ""));
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

absl::Status CheckOverrides(const ModelConfig& model, const std::vector<int32_t>& layers,
                            size_t num_stages) {
  if (layers.size() != num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device map has ", layers.size(), " stages, the pipeline ", num_stages));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the device map gives stage ", i, " ", layers[i], " layers"));
    }
  }
  const int64_t total = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (total == model.num_layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the device map has ", total, " layers, the model ", model.num_layers));
}

absl::StatusOr<ModeSplit> SplitAsGiven(const ModelConfig& model,
                                       const std::vector<DeviceSpec>& devices,
                                       std::vector<StageGroup> groups,
                                       const PlacementOptions& options, const BlockRange& wanted,
                                       StageCosts* costs) {
  TUTTI_RETURN_IF_ERROR(CheckOverrides(model, options.layers, groups.size()));
  const std::vector<StageSlot> slots = SlotsOf(groups, devices, costs);
  Split split{.layers = options.layers, .blocks = wanted.most};
  for (size_t i = 0; i < slots.size(); ++i) {
    split.blocks = std::min(split.blocks, BlocksThatFit(slots[i], split.layers[i]));
    if (split.blocks < wanted.least) {
      return StageLacks(devices, groups, i, slots[i], split.layers[i], wanted.least, options);
    }
  }
  return ModeSplit{.groups = std::move(groups), .split = std::move(split)};
}

// Devices whose speeds are nearly the same count as equal, so that the noise of a measurement does
// not move layers and two starts of one cluster give one map.
std::vector<DeviceSpec> WithComparableSpeeds(std::vector<DeviceSpec> devices) {
  const auto level = [&](double DeviceSpeed::*field) {
    const auto [least, most] = std::minmax_element(
        devices.begin(), devices.end(), [field](const DeviceSpec& a, const DeviceSpec& b) {
          return a.speed.*field < b.speed.*field;
        });
    const double low = least->speed.*field;
    if (most->speed.*field > kSameSpeedRatio * low) return;
    for (DeviceSpec& device : devices) device.speed.*field = low;
  };
  if (std::any_of(devices.begin(), devices.end(),
                  [](const DeviceSpec& device) { return !device.speed.known(); })) {
    for (DeviceSpec& device : devices) device.speed = kNominalSpeed;
  } else if (!devices.empty()) {
    level(&DeviceSpeed::read_bytes_per_second);
    level(&DeviceSpeed::flops_per_second);
  }
  return devices;
}

DeviceSpeed SpeedOf(const std::vector<DeviceSpec>& devices, const StageGroup& group) {
  DeviceSpeed speed = devices[group.front()].speed;
  for (const int64_t index : group) speed = SlowerOf(speed, devices[index].speed);
  return speed;
}

PlacementPlan Write(const std::vector<DeviceSpec>& devices, const ModeSplit& chosen,
                    const PlacementOptions& options, StageCosts* costs) {
  PlacementPlan plan{.stages = {},
                     .num_blocks = static_cast<int32_t>(chosen.split.blocks),
                     .block_size = options.block_size};
  const size_t count = chosen.groups.size();
  int32_t first_layer = 0;
  for (size_t i = 0; i < count; ++i) {
    const StageGroup& group = chosen.groups[i];
    const StageCost& cost = costs->Of(static_cast<int>(group.size()), i == 0, i + 1 == count);
    StagePlan stage{.first_layer = first_layer,
                    .num_layers = chosen.split.layers[i],
                    .has_embedding = i == 0,
                    .has_head = i + 1 == count,
                    .ranks = {},
                    .cost = cost.step,
                    .speed = SpeedOf(devices, group)};
    for (size_t rank = 0; rank < group.size(); ++rank) {
      const RankCost& bytes = cost.ranks[rank];
      const DeviceSpec& device = devices[group[rank]];
      stage.ranks.push_back(
          {.device = device.name,
           .device_index = group[rank],
           .budget_bytes = device.memory_bytes,
           .weight_bytes = bytes.fixed_weights + stage.num_layers * bytes.layer_weights,
           .kv_bytes = stage.num_layers * chosen.split.blocks * bytes.layer_block,
           .activation_bytes = bytes.activations});
    }
    first_layer += stage.num_layers;
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace

int64_t SmallestStageBytes(const ModelConfig& model, const PlacementOptions& options) {
  int32_t ranks = std::max(1, options.num_ranks);
  for (const int32_t count : options.stage_ranks) ranks = std::max(ranks, count);
  if (!CheckRanks(model, ranks).ok()) ranks = 1;  // refused where the pipeline is planned
  StageCosts costs(model, options);
  const RankCost& middle = costs.Of(ranks, false, false).ranks.front();
  return middle.activations + middle.layer_weights + middle.layer_block;
}

absl::StatusOr<PlacementPlan> PlanPlacement(const ModelConfig& model,
                                            const std::vector<DeviceSpec>& devices,
                                            const PlacementOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                         StageRanks(model, devices.size(), options));
  const std::vector<StageGroup> groups = GroupsOf(ranks);
  const BlockRange wanted = BlocksWanted(model, options);
  StageCosts costs(model, options);
  if (!options.layers.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const ModeSplit given,
                           SplitAsGiven(model, devices, groups, options, wanted, &costs));
    return Write(devices, given, options, &costs);
  }
  const auto chosen =
      SplitByMode(model, WithComparableSpeeds(devices), groups, options, wanted, &costs);
  if (!chosen.has_value()) return DoesNotFit(model, devices, groups, options, wanted.least);
  return Write(devices, *chosen, options, &costs);
}

}  // namespace tutti
