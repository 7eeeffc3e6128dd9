// The codes of a quantised weight on the device, in the layout of codes_layout.h.
//
// Thread: the backend's.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/codes_layout.h"
#include "kernels/cuda/cuda_buffer.h"
#include "kernels/cuda/runtime.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels::cuda {

// Outputs whose inputs are divided alike.
struct CodesSection {
  int64_t first_row = 0;  // of the weight
  int64_t rows = 0;
  // Its product but for rows and where they and the results are.
  CodesArgs args;
  // Inputs as they are packed, on the device; nullptr: by args.leaves.
  const int32_t* order = nullptr;
};

class CudaCodes {
 public:
  // As Backend::PackQuantised.   REQUIRES: the runtime outlives it; rows are not rounded
  static absl::StatusOr<std::unique_ptr<CudaCodes>> Pack(Runtime* runtime,
                                                         const QuantisedSource& source,
                                                         const std::vector<int64_t>& leaf_begin);

  const std::vector<CodesSection>& sections() const { return sections_; }
  // Whether rows that are packed as for any other weight of the leaves of the one section are
  // packed for it.
  bool in_order() const { return sections_.size() == 1 && sections_[0].order == nullptr; }
  int64_t bytes() const { return data_->bytes(); }
  // k of packed rows for which work space is to be had.
  int64_t packed_width() const { return packed_width_; }

 private:
  CudaCodes() = default;

  std::vector<CodesSection> sections_;
  int64_t packed_width_ = 0;
  std::unique_ptr<CudaBuffer> data_;
};

}  // namespace tutti::kernels::cuda
