// A placement: which devices serve which layers of one pipeline, and the facts it is decided from.
// PlacePipeline finds it (placement/place_pipeline.h).
//
// A placement is a proof: every byte that a rank will hold is counted before anything is loaded,
// with the same functions that the worker's loader obeys (model/partition.h, the backend's packed
// sizes).
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "base/status.h"
#include "model/model_config.h"
#include "placement/step_cost.h"

namespace tutti::placement {

struct DeviceSpec {
  std::string name;          // worker id, or "device 0" in `tutti plan`
  int64_t memory_bytes = 0;  // for weights, KV cache and work space together
  DeviceSpeed speed;         // measured, or told by the operator
  DeviceKind kind = DeviceKind::kCpu;
  bool whole_gpu = false;  // memory_bytes is all that a GPU has, of which CUDA takes its part
  bool cublas = false;     // and cuBLASLt, by which it multiplies many rows
};
// The part of memory_bytes that a worker on the device would offer.
int64_t UsableBytes(const DeviceSpec& device);

// How the layers of one pipeline are dealt out. The names and meanings are those of Accelerate's
// device_map, with a stage in the place of a device; see docs/OPERATIONS.md.
enum class DeviceMapMode {
  kAuto,          // the most tokens per second: the slowest stage is as fast as memory lets it be
  kBalanced,      // as many weight bytes on every stage as on the others
  kBalancedLow0,  // the first stage gets only the layers that the others cannot hold
  kSequential,    // every stage is filled before the next one gets anything
};

// The mode with this name, such as "balanced_low_0"; null for anything else.
std::optional<DeviceMapMode> ParseDeviceMapMode(std::string_view name);

struct PlacementOptions {
  int32_t num_stages = 0;            // 0: as many as the devices make
  int32_t num_ranks = 1;             // of every stage
  std::vector<int32_t> stage_ranks;  // of each stage; empty: num_ranks everywhere
  std::vector<int32_t> layers;       // of each stage; empty: the mode decides
  DeviceMapMode mode = DeviceMapMode::kAuto;
  int32_t block_size = 16;
  int32_t max_batch_tokens = 512;
  int32_t max_sequences = 256;
  // Sequences by which the pace is judged, where several pipelines share them; 0: max_sequences.
  int32_t busy_sequences = 0;
  int32_t max_model_len = 0;  // 0: the model's context
  int64_t kv_tokens_max = 0;  // 0: up to max_sequences * max_model_len
  // A placement with less room is refused; 0: one block per sequence is demanded, but not room for
  // one sequence of max_model_len tokens.
  int64_t kv_tokens_min = 0;
  LinkSpeed link;
  // A model that the first rank of the last stage holds besides, whole, with K/V in as many blocks;
  // null: none.
  std::shared_ptr<const model::ModelConfig> draft;
};

// One worker's part of a stage.
struct RankPlacement {
  std::string device;
  int64_t device_index = 0;  // into the devices given
  DeviceKind kind = DeviceKind::kCpu;
  int64_t budget_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t activation_bytes = 0;  // scratch of the largest step
  int64_t peak_bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
};

struct StagePlacement {
  int32_t first_layer = 0;
  int32_t num_layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  std::vector<RankPlacement> ranks;  // in rank order; never empty
  StepCost cost;                     // of one rank's part of a step
  DeviceSpeed speed;                 // of its slowest rank; unknown when that of any rank is
};

struct Placement {
  std::vector<StagePlacement> stages;
  int32_t num_blocks = 0;  // per stage: a block id means the same block everywhere
  int32_t block_size = 0;
  int64_t kv_tokens() const { return static_cast<int64_t>(num_blocks) * block_size; }
};

// UNIMPLEMENTED names a device whose kind does not run this model, or the draft model beside it.
absl::Status CheckDeviceKinds(const model::ModelConfig& model, const PlacementOptions& options,
                              const std::vector<DeviceSpec>& devices);

}  // namespace tutti::placement
