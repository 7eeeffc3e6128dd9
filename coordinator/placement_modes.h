// The modes of Accelerate's device_map: how they deal layers to stages. Memory beyond the layers
// becomes KV room.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/placement_cost.h"
#include "coordinator/placement_split.h"

namespace tutti {

// A stage's devices, by their index, in rank order.
using StageGroup = std::vector<int64_t>;

// The slots of consecutive groups: the first has the embedding, the last the head.
std::vector<StageSlot> SlotsOf(const std::vector<StageGroup>& groups,
                               const std::vector<DeviceSpec>& devices, StageCosts* costs);

// The groups that serve, in order, and their layers.
struct ModeSplit {
  std::vector<StageGroup> groups;
  Split split;
};

// Null: `groups` do not hold the model with wanted.least blocks.
std::optional<ModeSplit> SplitByMode(const ModelConfig& model,
                                     const std::vector<DeviceSpec>& devices,
                                     std::vector<StageGroup> groups,
                                     const PlacementOptions& options, const BlockRange& wanted,
                                     StageCosts* costs);

}  // namespace tutti
