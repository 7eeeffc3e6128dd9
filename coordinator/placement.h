// Which worker serves which layers: pure arithmetic over the model's sizes and the devices' memory.
//
// The plan is a proof: every byte a stage will hold is counted here before anything is loaded, with
// the same functions the worker's loader obeys (model/partition.h, the backend's packed sizes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"

namespace tutti {

struct DeviceSpec {
  std::string name;          // worker id, or "device 0" in `tutti plan`
  int64_t memory_bytes = 0;  // what weights, KV cache and work space may use together
};

struct PlacementOptions {
  int32_t num_stages = 0;  // 0: as many as devices given
  std::vector<int32_t>
      layers;  // per stage; empty: chosen so that the KV room of the tightest stage is largest
  int32_t block_size = 16;
  int32_t max_batch_tokens = 512;
  int32_t max_sequences = 256;
  int32_t max_model_len = 0;  // 0: the model's context
  int64_t kv_tokens_max = 0;  // 0: up to max_sequences * max_model_len
  int64_t kv_tokens_min =
      0;  // refuse a plan with less room; 0: one sequence of max_model_len tokens is not
          // demanded, but at least one block per stage and sequence is
};

struct StagePlan {
  std::string device;
  int32_t first_layer = 0;
  int32_t num_layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  int64_t budget_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t activation_bytes = 0;  // scratch of the largest step
  int64_t peak_bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
};

struct PlacementPlan {
  std::vector<StagePlan> stages;
  int32_t num_blocks = 0;  // per stage: a block id means the same block everywhere
  int64_t kv_tokens() const { return static_cast<int64_t>(num_blocks) * block_size; }
  int32_t block_size = 0;
};

// The least memory with which a device can serve any stage of this model: one layer, and KV room
// for one block.
int64_t SmallestStageBytes(const ModelConfig& model, const PlacementOptions& options);

// The stages in the order of the devices. KV room comes first: the tightest stage gets the most
// that is possible, up to the limit of the options. Among the splits that give it, the one whose
// most loaded stage reads the fewest weight bytes per step.
//
// RESOURCE_EXHAUSTED says which stage lacks how many bytes, and the smallest thing that would fit
// (memory per device, number of devices or a shorter context). INVALID_ARGUMENT: overrides that do
// not fit the model.
absl::StatusOr<PlacementPlan> PlanPlacement(const ModelConfig& model,
                                            const std::vector<DeviceSpec>& devices,
                                            const PlacementOptions& options);

}  // namespace tutti
