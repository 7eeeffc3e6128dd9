// Which kernels multiply many rows on a device: those of wgmma where the device has it and it gives
// the bits of mma.sync there, which all other rows are multiplied by; else those of mma.sync. The
// bits are the same either way, and so is the numerics class.
#pragma once

#include <string>

#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

struct WideProducts {
  bool used = false;
  int32_t multiprocessors = 1;
  std::string remark;  // for a log, why; "" where there was nothing to choose
};

// Asks the device (wgmma_probe.h) where it may have wgmma.
//
//   capability: major * 10 + minor; multiprocessors > 0
WideProducts ChooseWideProducts(int capability, int32_t multiprocessors, int probe_blocks,
                                Runtime* runtime);

}  // namespace tutti::kernels::cuda
