// Quantised matrices of a shard: what is read for them, and how they are packed.
//
// Thread: the one that loads.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "model/checkpoint.h"
#include "model/partition.h"
#include "model/rotary.h"
#include "quant/spare_codes.h"
#include "worker/rank_place.h"
#include "worker/read_ahead.h"

namespace tutti::worker {

// What a rank reads of one matrix, in the order of PackQuantised.
// REQUIRES: CheckCheckpoint is OK
std::vector<ReadItem::Part> QuantisedReads(const model::Checkpoint& checkpoint,
                                           const model::ModelConfig& config,
                                           const model::ShardTensor& part);

// A matrix of a product.
struct QuantisedPiece {
  const model::ShardTensor* part = nullptr;
  std::vector<model::HeadSlice> order;  // its rows, as they are held
};

// The product of `pieces`, whose reads lie one behind the other at `bytes`; their codes pass
// through `spare`.
// Errors: those of quant::DecodeQuantMatrix and Backend::PackQuantised
absl::StatusOr<std::unique_ptr<kernels::Weight>> PackQuantised(
    const model::Checkpoint& checkpoint, const model::ModelConfig& config, RankPlace place,
    const std::vector<QuantisedPiece>& pieces, std::vector<int64_t> leaf_begin,
    const std::byte* bytes, kernels::Backend* backend, quant::SpareCodes* spare);

// Some packers write a bias for every matrix, zeros where the model has none.
// INVALID_ARGUMENT: one of the share that the model has not is not all zeros
absl::Status CheckUnusedBiases(const model::Checkpoint& checkpoint,
                               const model::ModelConfig& config, const model::StageShare& share);

// The rows of a quantised embedding in the type that the model computes in: what each code stands
// for, in f32, rounded once to the nearest.  [part.rows, part.cols]
// Errors: those of quant::DecodeQuantMatrix
absl::StatusOr<std::vector<std::byte>> ExpandRows(const model::Checkpoint& checkpoint,
                                                  const model::ModelConfig& config,
                                                  const model::ShardTensor& part,
                                                  const std::byte* bytes);

}  // namespace tutti::worker
