// Limits of this machine: bytes read from memory and floating-point operations per second.
//
// A speed without the limit measured beside it says little: on shared hosts the read bandwidth of
// two threads jumps between levels that last seconds to minutes. So probe in the same run, before
// and after, or in between.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace tutti::kernels {

// Thread: one at a time. Uses `threads` threads while a probe runs.
class MachineProbe {
 public:
  // RESOURCE_EXHAUSTED when the buffer of kProbeBytes cannot be had; FAILED_PRECONDITION on a
  // machine without AVX2; INVALID_ARGUMENT for a number of threads outside [1, kThreadsMax].
  static absl::StatusOr<std::unique_ptr<MachineProbe>> Create(int threads);
  virtual ~MachineProbe() = default;

  // Bytes per second of a pass over kProbeBytes, far more than the caches hold, in large pages: the
  // best of plain reads, several streams at once, and both with fetching ahead, each thread in its
  // own contiguous part. About 40 ms. Take several and the median of them.
  virtual double ReadBytesPerSecond() = 0;
  // f32 operations per second (a fused multiply-add is two), from registers. About 10 ms.
  virtual double F32FlopsPerSecond() = 0;
  // The same by the quickest instruction that gives the bits of a class of the cpu backend over
  // bf16: f32 multiply-adds, which give those of all, the bf16 dot instruction, or tiles.
  virtual double FlopsPerSecond(std::string_view numerics_class) = 0;
  // By the quickest instruction for bf16 that this machine has, in whatever class.
  virtual double BestFlopsPerSecond() = 0;
};

}  // namespace tutti::kernels
