// How much device memory the operators of the largest step need beside their operands.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// What products need of the weights packed so far.
struct ProductBounds {
  int64_t packed_width = 0;  // k of the widest 16-bit weight, padding included
  int64_t leaf_outputs = 0;  // the most that leaves times outputs of a 16-bit weight come to

  void Cover(const LeafMap& leaves, int64_t out_features, DType dtype);
};

// Bytes of every work space of the backend.
struct WorkBytes {
  int64_t packed_rows = 0, leaf_sums = 0;
  int64_t record_values = 0, record_sums = 0;
  int64_t carried = 0;  // each of what enters and what leaves
  int64_t results = 0;
  int64_t choice = 0;
  int64_t total() const {
    return packed_rows + leaf_sums + record_values + record_sums + 2 * carried + results + choice;
  }
};
WorkBytes WorkBytesOf(const StepBounds& bounds, const ProductBounds& products);

// Bytes of one array of each kind that the host sends.
struct ArrayBytes {
  int64_t rows = 0;  // one number for each row of a step
  int64_t expert_rows = 0;
  int64_t blocks = 0;  // block tables
  int64_t items = 0;   // each of the attention's two lists
  int64_t folds = 0;
  int64_t vocabulary = 0;  // one number for each logit of a row, and one
  int64_t frequencies = 0;
};
ArrayBytes ArrayBytesOf(const StepBounds& bounds);

}  // namespace tutti::kernels::cuda
