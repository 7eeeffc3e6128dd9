// Weights of a checkpoint in another type than the model computes in, or another order.
//
// Thread: the one that loads.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "kernels/backend.h"
#include "model/partition.h"
#include "model/rotary.h"

namespace tutti::worker {

// Makes all parts of `source` of one type, exactly or rounded to nearest even, in the memory of
// `staging`, which must outlive the parts' use.
void ConvertParts(DType type, kernels::WeightSource* source, std::vector<float>* staging);

// The rows of `part` in the order they are held in: heads as often as they are, and those of
// queries and keys in `head_order` (model::RotaryOrder).
std::vector<model::HeadSlice> HeldRows(const model::ShardTensor& part, int64_t head_dim,
                                       const std::vector<model::HeadSlice>& head_order);

}  // namespace tutti::worker
