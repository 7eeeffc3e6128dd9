// Finds the placement of one pipeline: pure arithmetic over the model's sizes and what the devices
// have.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/device_kind.h"
#include "base/status.h"
#include "model/model_config.h"
#include "placement/placement.h"

namespace tutti::placement {

// The least memory with which a device can serve as one of the options' ranks: one layer, and KV
// room for one block.
int64_t SmallestStageBytes(const model::ModelConfig& model, const PlacementOptions& options,
                           DeviceKind kind = DeviceKind::kCpu);

// One pipeline on the devices in the order given: those of stage 0 first, in rank order. Further
// devices stay unused; in the modes of Accelerate also those that get nothing.
//
// RESOURCE_EXHAUSTED says which stage lacks how many bytes, and the smallest thing that would fit
// (memory per device, number of devices or a shorter context). INVALID_ARGUMENT: rank or stage
// counts or layers that the model or the devices cannot take.
absl::StatusOr<Placement> PlacePipeline(const model::ModelConfig& model,
                                        const std::vector<DeviceSpec>& devices,
                                        const PlacementOptions& options);

}  // namespace tutti::placement
