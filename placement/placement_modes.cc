#include "placement/placement_modes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::placement {
namespace {

// Everything the planner needs to try groups of devices.
struct Trial {
  const model::ModelConfig& model;
  const std::vector<DeviceSpec>& devices;
  const PlacementOptions& options;
  const BlockRange& wanted;
  StageCosts* costs;
  int64_t tried_max;
};

// Weight bytes on the first rank: the load that Accelerate balances.
double WeightLoad(const StageSlot& slot, int64_t layers) {
  const RankCost& cost = *slot.ranks.front().cost;
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
  return ModeSplit{
      .groups = std::move(groups),
      .split = FastestSplit(trial.model, slots, trial.options, trial.wanted, trial.tried_max)};
}

std::optional<ModeSplit> Balanced(const Trial& trial, std::vector<StageGroup> groups) {
  const std::vector<StageSlot> slots = SlotsOf(groups, trial.devices, trial.costs);
  if (!Fits(slots, trial.model.num_layers, trial.wanted.least)) return std::nullopt;
  return Finish(trial, std::move(groups), slots,
                Deal(slots, trial.model.num_layers, trial.wanted.least, WeightLoad));
}

// The first group gets only the layers that the others cannot hold, and no part in the pipeline if
// there are none.
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

DeviceSpeed SpeedOf(const std::vector<DeviceSpec>& devices, const StageGroup& group) {
  DeviceSpeed speed = devices[group.front()].speed;
  for (const int64_t index : group) speed = SlowerOf(speed, devices[index].speed);
  return speed;
}

}  // namespace

std::vector<StageSlot> SlotsOf(const std::vector<StageGroup>& groups,
                               const std::vector<DeviceSpec>& devices, StageCosts* costs) {
  std::vector<StageSlot> slots(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool last = i + 1 == groups.size();
    const auto count = static_cast<int>(groups[i].size());
    slots[i].speed = kNominalSpeed;
    for (size_t rank = 0; rank < groups[i].size(); ++rank) {
      const DeviceSpec& device = devices[groups[i][rank]];
      const StageCost& cost = costs->Of(count, i == 0, last, device.kind);
      slots[i].step = &cost.step;
      slots[i].ranks.push_back({&cost.ranks[rank], UsableBytes(device)});
      if (!device.speed.known()) continue;
      if (rank == 0) slots[i].speed = device.speed;
      slots[i].speed = SlowerOf(slots[i].speed, device.speed);
    }
  }
  return slots;
}

std::vector<DeviceSpec> WithComparableSpeeds(std::vector<DeviceSpec> devices) {
  const auto level = [&](double DeviceSpeed::*field) {
    std::vector<double*> speeds;
    for (DeviceSpec& device : devices) speeds.push_back(&(device.speed.*field));
    std::sort(speeds.begin(), speeds.end(), [](double* a, double* b) { return *a < *b; });
    double slowest = 0;
    for (double* speed : speeds) {
      if (*speed > kSameSpeedRatio * slowest) slowest = *speed;
      *speed = slowest;
    }
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

std::vector<int64_t> LargestFirst(const std::vector<DeviceSpec>& devices) {
  std::vector<int64_t> order(devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const DeviceSpec& x = devices[a];
    const DeviceSpec& y = devices[b];
    if (x.speed.read_bytes_per_second != y.speed.read_bytes_per_second) {
      return x.speed.read_bytes_per_second > y.speed.read_bytes_per_second;
    }
    return UsableBytes(x) > UsableBytes(y);
  });
  return order;
}

std::optional<ModeSplit> SplitByMode(const model::ModelConfig& model,
                                     const std::vector<DeviceSpec>& devices,
                                     std::vector<StageGroup> groups,
                                     const PlacementOptions& options, const BlockRange& wanted,
                                     StageCosts* costs, int64_t tried_max) {
  const Trial trial{model, devices, options, wanted, costs, tried_max};
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

bool CountLayers(const std::vector<DeviceSpec>& devices, const BlockRange& wanted,
                 StageCosts* costs, ModeSplit* chosen) {
  if (costs->layers_alike()) return true;
  const std::vector<StageSlot> slots = SlotsOf(chosen->groups, devices, costs);
  int64_t blocks = wanted.most, first = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t layers = chosen->split.layers[i];
    blocks = std::min(blocks, BlocksThatFit(FilledSlot(slots[i], first, layers).slot(), layers));
    first += layers;
  }
  if (blocks < wanted.least) return false;
  chosen->split.blocks = blocks;
  return true;
}

Placement WritePlacement(const std::vector<DeviceSpec>& devices, const ModeSplit& chosen,
                         const PlacementOptions& options, StageCosts* costs) {
  Placement placement{.stages = {},
                      .num_blocks = static_cast<int32_t>(chosen.split.blocks),
                      .block_size = options.block_size};
  const size_t count = chosen.groups.size();
  int32_t first_layer = 0;
  for (size_t i = 0; i < count; ++i) {
    const StageGroup& group = chosen.groups[i];
    StagePlacement stage{.first_layer = first_layer,
                         .num_layers = chosen.split.layers[i],
                         .has_embedding = i == 0,
                         .has_head = i + 1 == count,
                         .ranks = {},
                         .cost = {},
                         .speed = SpeedOf(devices, group)};
    for (size_t rank = 0; rank < group.size(); ++rank) {
      const DeviceSpec& device = devices[group[rank]];
      const StageCost& cost =
          costs->Of(static_cast<int>(group.size()), i == 0, i + 1 == count, device.kind);
      const RankCost& bytes = cost.ranks[rank];
      stage.cost = cost.step;
      stage.ranks.push_back(
          {.device = device.name,
           .device_index = group[rank],
           .kind = device.kind,
           .budget_bytes = UsableBytes(device),
           .weight_bytes = costs->WeightBytes(stage, static_cast<int>(group.size()),
                                              static_cast<int>(rank), device.kind),
           .kv_bytes =
               chosen.split.blocks * (stage.num_layers * bytes.layer_block + bytes.fixed_block),
           .activation_bytes = bytes.activations});
    }
    first_layer += stage.num_layers;
    placement.stages.push_back(std::move(stage));
  }
  return placement;
}

}  // namespace tutti::placement
