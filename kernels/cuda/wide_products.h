// Which kernels multiply many rows on a device: those of wgmma where the device has it and it gives
// the bits of mma.sync there, which all other rows are multiplied by; else those of mma.sync. The
// bits are the same either way, and so is the numerics class. A class of its own multiplies them by
// cuBLASLt, whose bits depend on the number of rows (docs/decisions/0072).
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

struct WideProducts {
  bool used = false;
  int32_t multiprocessors = 1;
  std::string remark;  // for a log, why; "" where there was nothing to choose
  // Set: weights lie as it reads them, and it multiplies many rows with 16-bit ones.
  std::shared_ptr<CublasLt> library;
  void* work_space = nullptr;  // of the library; allocated, and its user's to free
  // Whose device is lost where a product of the library's fails.
  int32_t device_index = 0;
  LostDeviceHandler on_lost_device = nullptr;
};

// What multiplies by `library`.  RESOURCE_EXHAUSTED: no room for its work space.
absl::StatusOr<WideProducts> ProductsByLibrary(std::shared_ptr<CublasLt> library, Runtime* runtime);

// Asks the device (wgmma_probe.h) where it may have wgmma.
//
//   capability: major * 10 + minor; multiprocessors > 0
WideProducts ChooseWideProducts(int capability, int32_t multiprocessors, int probe_blocks,
                                Runtime* runtime);

}  // namespace tutti::kernels::cuda
