// Products of many rows by NVIDIA's cuBLASLt, behind an interface: the library itself
// (cublaslt_library), or, on the emulated GPU, a library that opens its memory for each call
// (emulated/cublaslt_emulated).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/cuda/launch.h"

namespace tutti::kernels::cuda {

// out[r, n] = sum_k in[r, k] * weight[n, k]; all memory is the device's.
struct LibraryProduct {
  DType type = DType::kBF16;         // of weight and in: kBF16 or kF16
  const uint16_t* weight = nullptr;  // [out_features, width], rows next to each other
  const uint16_t* in = nullptr;      // [rows, width], the same
  float* out = nullptr;              // [rows, out_features]
  int64_t out_stride = 0;            // in values, >= out_features
  int64_t rows = 0;                  // > 0, as all below
  int64_t out_features = 0;
  int64_t width = 0;  // a multiple of kGpuChunkK
};

// Thread: one at a time.
class CublasLt {
 public:
  virtual ~CublasLt() = default;

  // 10000 * major + 100 * minor + patch
  virtual int64_t version() const = 0;
  // Whether the library has an algorithm for the product that does with the work space.
  // INTERNAL: it cannot be asked, with its message.
  virtual absl::StatusOr<bool> Has(const LibraryProduct& product) = 0;
  // Queues the product on `stream`.  REQUIRES: Has. INTERNAL: the library refused, with its
  // message.
  //
  //   work_space  kGpuCublasWorkSpaceBytes of the device, which one product uses at a time
  virtual absl::Status Multiply(const LibraryProduct& product, void* work_space, Stream stream) = 0;
};

}  // namespace tutti::kernels::cuda
