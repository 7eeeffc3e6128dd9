// The modes of Accelerate's device_map: how they deal layers to stages. Memory beyond the layers
// becomes KV room.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "placement/placement_cost.h"
#include "placement/placement_split.h"

namespace tutti::placement {

// A stage's devices, by their index, in rank order.
using StageGroup = std::vector<int64_t>;

// The slots of consecutive groups: the first has the embedding, the last the head.
std::vector<StageSlot> SlotsOf(const std::vector<StageGroup>& groups,
                               const std::vector<DeviceSpec>& devices, StageCosts* costs);

// Devices whose speeds are nearly the same count as equal, so that the noise of a measurement does
// not move layers and two starts of one cluster give one map: the slowest and all within
// kSameSpeedRatio of it, then the slowest of the others, and so on. All count as equal where the
// speed of any is unknown.
std::vector<DeviceSpec> WithComparableSpeeds(std::vector<DeviceSpec> devices);

// The indices of the devices, quick ones first and large ones before small ones that are as quick;
// equals stay as they are.
std::vector<int64_t> LargestFirst(const std::vector<DeviceSpec>& devices);

// The groups that serve, in order, and their layers.
struct ModeSplit {
  std::vector<StageGroup> groups;
  Split split;
};

// Null: `groups` do not hold the model with wanted.least blocks. `tried_max`: see FastestSplit.
std::optional<ModeSplit> SplitByMode(const model::ModelConfig& model,
                                     const std::vector<DeviceSpec>& devices,
                                     std::vector<StageGroup> groups,
                                     const PlacementOptions& options, const BlockRange& wanted,
                                     StageCosts* costs, int64_t tried_max = kSplitsTriedMax);

// Counts what each layer of the chosen split takes of its own, and sets its blocks to those that
// fit beside. False: fewer than wanted.least do, and the split is left as it is.
bool CountLayers(const std::vector<DeviceSpec>& devices, const BlockRange& wanted,
                 StageCosts* costs, ModeSplit* chosen);

// The placement of the chosen split, with every byte counted. The speeds are those of `devices`.
Placement WritePlacement(const std::vector<DeviceSpec>& devices, const ModeSplit& chosen,
                         const PlacementOptions& options, StageCosts* costs);

}  // namespace tutti::placement
