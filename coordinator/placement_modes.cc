#include "coordinator/placement_modes.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// Everything the planner needs to try groups of devices.
struct Trial {
  const ModelConfig& model;
  const std::vector<DeviceSpec>& devices;
  const PlacementOptions& options;
  const BlockRange& wanted;
  StageCosts* costs;
};

// Weight bytes on the first rank, what Accelerate balances.
double WeightLoad(const StageSlot& slot, int64_t layers) {
  const RankCost& cost = slot.cost->ranks.front();
  return static_cast<double>(cost.fixed_weights + layers * cost.layer_weights);
}

std::optional<ModeSplit> Finish(const Trial& trial, std::vector<StageGroup> groups,
                                const std::vector<StageSlot>& slots, std::vector<int32_t> layers) {
  ModeSplit result{.groups = std::move(groups), .split = {.layers = std::move(layers)}};
  result.split.blocks = BlocksOf(slots, result.split.layers, trial.wanted.most);
  return result;
}

std::optional<ModeSplit> Auto(const Trial& trial, std::vector<StageGroup> groups) {
  const std::vector<StageSlot> slots = SlotsOf(groups, trial.devices, trial.costs);
  if (!Fits(slots, trial.model.num_layers, trial.wanted.least)) return std::nullopt;
  return ModeSplit{.groups = std::move(groups),
                   .split = FastestSplit(trial.model, slots, trial.options, trial.wanted)};
}

std::optional<ModeSplit> Balanced(const Trial& trial, std::vector<StageGroup> groups) {
  const std::vector<StageSlot> slots = SlotsOf(groups, trial.devices, trial.costs);
  if (!Fits(slots, trial.model.num_layers, trial.wanted.least)) return std::nullopt;
  return Finish(trial, std::move(groups), slots,
                Deal(slots, trial.model.num_layers, trial.wanted.least, WeightLoad));
}

// The first group gets only what the others cannot hold, and no part in the pipeline if that is
// nothing.
std::optional<ModeSplit> BalancedLow0(const Trial& trial, std::vector<StageGroup> groups) {
  if (groups.size() == 1) return Balanced(trial, std::move(groups));
  if (auto without = Balanced(trial, {groups.begin() + 1, groups.end()})) return without;
  const std::vector<StageSlot> slots = SlotsOf(groups, trial.devices, trial.costs);
  const int64_t blocks = trial.wanted.least;
  if (!Fits(slots, trial.model.num_layers, blocks)) return std::nullopt;
  const std::vector<StageSlot> others(slots.begin() + 1, slots.end());
  int64_t held = 0;
  for (const StageSlot& slot : others) held += LayersThatFit(slot, blocks);
  const int64_t first = std::max<int64_t>(1, trial.model.num_layers - held);
  std::vector<int32_t> layers = {static_cast<int32_t>(first)};
  const std::vector<int32_t> rest =
      Deal(others, trial.model.num_layers - first, blocks, WeightLoad);
  layers.insert(layers.end(), rest.begin(), rest.end());
  return Finish(trial, std::move(groups), slots, std::move(layers));
}

// Each group is filled before the next gets anything; the last ones may be left out.
std::optional<ModeSplit> Sequential(const Trial& trial, const std::vector<StageGroup>& all) {
  const int64_t num_layers = trial.model.num_layers;
  for (size_t count = 1; count <= all.size(); ++count) {
    std::vector<StageGroup> groups(all.begin(), all.begin() + count);
    const std::vector<StageSlot> slots = SlotsOf(groups, trial.devices, trial.costs);
    if (!Fits(slots, num_layers, trial.wanted.least)) continue;
    std::vector<int32_t> layers;
    int64_t left = num_layers;
    for (const StageSlot& slot : slots) {
      const auto for_others = static_cast<int64_t>(count - layers.size() - 1);
      const int64_t fit = LayersThatFit(slot, trial.wanted.least);
      layers.push_back(static_cast<int32_t>(std::min(fit, left - for_others)));
      left -= layers.back();
    }
    return Finish(trial, std::move(groups), slots, std::move(layers));
  }
  return std::nullopt;
}

}  // namespace

std::vector<StageSlot> SlotsOf(const std::vector<StageGroup>& groups,
                               const std::vector<DeviceSpec>& devices, StageCosts* costs) {
  std::vector<StageSlot> slots(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool last = i + 1 == groups.size();
    slots[i].cost = &costs->Of(static_cast<int>(groups[i].size()), i == 0, last);
    slots[i].speed = kNominalSpeed;
    for (size_t rank = 0; rank < groups[i].size(); ++rank) {
      const DeviceSpec& device = devices[groups[i][rank]];
      slots[i].memory.push_back(device.memory_bytes);
      if (!device.speed.known()) continue;
      if (rank == 0) slots[i].speed = device.speed;
      slots[i].speed = SlowerOf(slots[i].speed, device.speed);
    }
  }
  return slots;
}

std::optional<ModeSplit> SplitByMode(const ModelConfig& model,
                                     const std::vector<DeviceSpec>& devices,
                                     std::vector<StageGroup> groups,
                                     const PlacementOptions& options, const BlockRange& wanted,
                                     StageCosts* costs) {
  const Trial trial{model, devices, options, wanted, costs};
  switch (options.mode) {
    case DeviceMapMode::kAuto:
      return Auto(trial, std::move(groups));
    case DeviceMapMode::kBalanced:
      return Balanced(trial, std::move(groups));
    case DeviceMapMode::kBalancedLow0:
      return BalancedLow0(trial, std::move(groups));
    case DeviceMapMode::kSequential:
      return Sequential(trial, groups);
  }
  return std::nullopt;
}

}  // namespace tutti
