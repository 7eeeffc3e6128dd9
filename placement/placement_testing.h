// Support for tests of placements: small devices and options, and the check that every byte is
// counted.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/partition.h"
#include "model/work_space.h"
#include "placement/placement.h"

namespace tutti::placement {

inline constexpr int64_t kGiB = int64_t{1} << 30;

inline std::vector<DeviceSpec> Devices(const std::vector<int64_t>& memory) {
  std::vector<DeviceSpec> devices;
  for (const int64_t bytes : memory) {
    devices.push_back(
        {.name = "w" + std::to_string(devices.size() + 1), .memory_bytes = bytes, .speed = {}});
  }
  return devices;
}

inline std::vector<int32_t> Layers(const Placement& placement) {
  std::vector<int32_t> layers;
  for (const StagePlacement& stage : placement.stages) layers.push_back(stage.num_layers);
  return layers;
}

// Small limits, so that the least KV room does not hide the rest.
inline PlacementOptions Small() {
  return {.max_batch_tokens = 32, .max_sequences = 2, .max_model_len = 4096};
}

// Whether every byte is accounted for and every stage fits.
inline void CheckPlacement(const model::ModelConfig& model, const Placement& placement,
                           const PlacementOptions& options) {
  int32_t next_layer = 0;
  for (size_t i = 0; i < placement.stages.size(); ++i) {
    const StagePlacement& stage = placement.stages[i];
    EXPECT_EQ(stage.first_layer, next_layer);
    EXPECT_GE(stage.num_layers, 1);
    EXPECT_EQ(stage.has_embedding, i == 0);
    EXPECT_EQ(stage.has_head, i + 1 == placement.stages.size());
    const model::StageShare share{stage.first_layer, stage.num_layers, stage.has_embedding,
                                  stage.has_head};
    const auto ranks = static_cast<int>(stage.ranks.size());
    for (int r = 0; r < ranks; ++r) {
      const RankPlacement& rank = stage.ranks[r];
      EXPECT_LE(rank.peak_bytes(), rank.budget_bytes) << "stage " << i << " rank " << r;
      EXPECT_EQ(rank.weight_bytes, model::ComputeShardBytes(model, share, ranks, r).total());
      EXPECT_EQ(rank.kv_bytes, placement.kv_tokens() * 2 * share.num_layers *
                                   model::KvHeadsPerRank(model, ranks, r) * model.head_dim *
                                   DTypeBytes(model.dtype));
      EXPECT_EQ(rank.activation_bytes,
                model::WorkSpaceBytes(model, stage.has_head, options.max_batch_tokens,
                                      options.max_sequences, ranks, r));
    }
    next_layer += stage.num_layers;
  }
  EXPECT_EQ(next_layer, model.num_layers);
}

}  // namespace tutti::placement
