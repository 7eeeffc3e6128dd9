// Why a model does not fit, by how many bytes, and the smallest thing that would.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "placement/placement_modes.h"

namespace tutti::placement {

// The unit in which the number is easiest to read, rounded up: "what would fit" must fit.
std::string SizeRoundedUp(int64_t bytes);

// "stage 1 (w2, 24.00 GiB)": with the device of rank `rank`.
std::string DescribeStage(const std::vector<DeviceSpec>& devices,
                          const std::vector<StageGroup>& groups, size_t stage, int64_t rank);

// RESOURCE_EXHAUSTED: the layers do not fit, even with the least KV room. Says how many do, how
// many bytes are missing and where, and the smallest devices that would be enough.
absl::Status DoesNotFit(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
                        const std::vector<StageGroup>& groups, const PlacementOptions& options,
                        int64_t blocks);

// RESOURCE_EXHAUSTED: a stage whose layers were given.
absl::Status StageLacks(const std::vector<DeviceSpec>& devices,
                        const std::vector<StageGroup>& groups, size_t stage, const StageSlot& slot,
                        int64_t layers, int64_t blocks, const PlacementOptions& options);

}  // namespace tutti::placement
