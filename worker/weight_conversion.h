// Weights of a checkpoint in another type than the model computes in.
//
// Thread: the one that loads.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "kernels/backend.h"

namespace tutti::worker {

// Makes all parts of `source` of one type, exactly or rounded to nearest even, in the memory of
// `staging`, which must outlive the parts' use.
void ConvertParts(DType type, kernels::WeightSource* source, std::vector<float>* staging);

}  // namespace tutti::worker
