// A shard's weights, packed for a backend: read matrix by matrix from the checkpoint, and digested
// from the memory that they are packed from.
//
// Thread: the one that loads (the executor's).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "model/chunk_digest.h"
#include "model/model_config.h"
#include "model/weight_map.h"
#include "worker/rank_place.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// The widths below are a rank's own (model/partition.h), but for hidden and head_dim.
//
// Query and key heads stand in model/rotary.h's RotaryOrder, weights, biases and norms alike.
//
// Views of vectors are [1, n] f32 inside ShardWeights::vectors. A vector the model does not have
// has data == nullptr.
// Null for the experts of other ranks (ModelConfig::whole_experts).
struct ExpertWeights {
  std::unique_ptr<kernels::Weight> gate_up;  // hidden -> gate, up
  std::unique_ptr<kernels::Weight> down;     // expert intermediate -> hidden, in leaves
};

struct LayerWeights {
  kernels::TensorView input_norm;        // [1, hidden]
  std::unique_ptr<kernels::Weight> qkv;  // hidden -> query heads, key heads, value heads
  kernels::TensorView qkv_bias;          // [1, q_width + 2 kv_width]
  kernels::TensorView query_norm;        // [1, head_dim]
  kernels::TensorView key_norm;          // [1, head_dim]
  std::unique_ptr<kernels::Weight> attention_output;  // q_width -> hidden, in leaves
  kernels::TensorView output_bias;                    // [1, hidden], of every rank
  kernels::TensorView post_attention_norm;            // [1, hidden]
  std::unique_ptr<kernels::Weight> gate_up;           // hidden -> gate, up
  kernels::TensorView gate_up_bias;                   // [1, 2 intermediate]
  std::unique_ptr<kernels::Weight> down;              // intermediate -> hidden, in leaves
  kernels::TensorView down_bias;                      // [1, hidden], of every rank
  // In layers with experts, in place of gate_up and down.
  std::unique_ptr<kernels::Weight> router;  // hidden -> experts, f32 for any type of checkpoint
  std::vector<ExpertWeights> experts;
};

struct ShardWeights {
  std::shared_ptr<kernels::Weight> embedding;  // null unless the share has it
  std::vector<LayerWeights> layers;            // those of the share, in order
  kernels::TensorView final_norm;
  std::shared_ptr<kernels::Weight> head;  // the embedding itself when tied and both are here
  std::unique_ptr<kernels::DeviceBuffer> vectors;
  // The digests of every chunk of the checkpoint that has a byte of the shard.
  std::vector<model::ChunkRun> read;

  int64_t bytes() const;  // resident, padding included, a shared matrix once
};

// Reads exactly the rank's part of the tensors of `share` from the checkpoint in `dir`; of matrices
// whose codes are made here, whole groups of it.
//
// The largest matrices come first: what was read and is not packed yet is held beside the packed
// form, so the peak stays at the final size plus kReadAheadBytes, or twice the largest matrix if
// that is more. Tensors of another type than config.dtype are converted, which takes the size of
// one matrix more while it is packed; codes that are made or unpacked take a byte for each of its
// elements, in memory that the next matrix takes over where it is not far too large.
//
// REQUIRES: CheckRankShape is OK. Errors: those of CheckRanks for the roles of codes that the
// checkpoint has; of Checkpoint, CheckCheckpoint and ChunkReader, naming
// file and tensor; FAILED_PRECONDITION when a file changed while it was read; RESOURCE_EXHAUSTED
// from the backend, or because the shard has more chunks than a frame can report.
absl::StatusOr<ShardWeights> LoadWeights(const std::string& dir, const model::ModelConfig& config,
                                         const model::StageShare& share, kernels::Backend* backend,
                                         const ShardProgressCallback& progress,
                                         RankPlace place = {});

}  // namespace tutti::worker
