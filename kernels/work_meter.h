// How far a backend has come within an operator, for a thread that watches the one that computes: a
// product of many rows and a large weight takes longer than a worker may be silent.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// Work of a backend: bytes of weights and KV cache that it reads, operations of its products.
struct Work {
  double bytes = 0;
  double flops = 0;
};

// Implemented by backends whose operators run on threads of the process (Backend::work_meter).
// A backend without it is through with an operator when the call returns, or later on its device.
class WorkMeter {
 public:
  virtual ~WorkMeter() = default;

  // Grows with every slice of an operator that is done.  Thread: any.
  virtual uint64_t slices_done() const = 0;

  // What the whole backend could do while one of its threads does the largest slice of a product.
  //
  //   in_features  of the widest product; element_bytes: of its weight
  virtual Work LargestSlice(int64_t rows, int64_t in_features, int64_t element_bytes) const = 0;
};

}  // namespace tutti::kernels
