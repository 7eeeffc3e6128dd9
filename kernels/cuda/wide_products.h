// Which kernels multiply on a device: those of wgmma where the device has it and it gives the bits
// of mma.sync there; else those of mma.sync. The bits are the same either way, and so is the
// numerics class. A class of its own multiplies many rows by cuBLASLt, whose bits depend on the
// number of rows (docs/decisions/0072).
//
// The variable TUTTI_WGMMA=off does without wgmma wherever a backend is opened: a worker, a test or
// a bench whose wgmma fails or hangs.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

struct WideProducts {
  bool used = false;
  bool attends = false;  // many rows attend by wgmma, too (attention_hopper.h)
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

// A device that may have wgmma.
struct WideDevice {
  std::string id;      // the same for the same device, in this process
  int capability = 0;  // major * 10 + minor
  int32_t multiprocessors = 1;
  int probe_blocks = 1;
};
struct WgmmaProbe;
// By what a probe found.
WideProducts WideProductsOf(const WgmmaProbe& probe, int32_t multiprocessors);
// Asks the device (wgmma_probe.h) where it may have wgmma and TUTTI_WGMMA does not say "off". Its
// answer is remembered by the process; one that could not be had is asked for again.
// INVALID_ARGUMENT: TUTTI_WGMMA is neither "on" nor "off".  Thread: any.
absl::StatusOr<WideProducts> ChooseWideProducts(const WideDevice& device, Runtime* runtime);

}  // namespace tutti::kernels::cuda
