// Checkpoints of any real shape with random weights: for measuring speed and memory where no real
// weights are at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "model/model_config.h"

namespace tutti::tools {

// What f16 is written for is below 2.
inline constexpr float kHeadScaleMax = 50;

struct RandomCheckpointOptions {
  std::string output_dir;  // must exist
  uint64_t seed = 0;
  // The weights of the output head times this; not of a head that is the embedding. 1 makes every
  // token nearly as likely as the others, 4 a few of them much likelier, as trained models have it.
  float head_scale = 1;
  int64_t shard_bytes = 0;  // a new file before a tensor that would make one larger; 0: one file
};

// Called now and then with the bytes of tensors written so far.
using WriteProgress = std::function<void(int64_t done, int64_t total)>;

// Writes model.safetensors, or model-0000i-of-0000n.safetensors and their index. Every file takes
// its name when it is complete, so a run that was stopped leaves no checkpoint that opens. Files of
// an older checkpoint in the directory are overwritten or, when of the other layout, removed.
//
// A tensor's values depend on the seed and its name only, not on the shards. Matrices are uniform
// with mean 0 and standard deviation 0.02, norms within 0.1 of 1. REQUIRES: 0 < head_scale <=
// kHeadScaleMax
absl::Status WriteRandomCheckpoint(const model::ModelConfig& config,
                                   const RandomCheckpointOptions& options,
                                   const WriteProgress& progress);

// Fills `out` with `count` values of `dtype` from element `first` of the tensor on: uniform in
// [mean - spread, mean + spread], value i a function of (key, i).  REQUIRES: first is a multiple of
// 4
void FillRandom(uint64_t key, int64_t first, int64_t count, DType dtype, float mean, float spread,
                std::byte* out);

}  // namespace tutti::tools
