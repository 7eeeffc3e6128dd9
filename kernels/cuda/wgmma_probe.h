// Whether wgmma gives the bits of mma.sync on the GPU at hand: a property of its tensor cores that
// NVIDIA does not promise (docs/decisions/0023). Asked when a device is opened, never by a request.
#pragma once

#include "base/status.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// Blocks of each of the probe's kernels, each with operands of its own: eight kinds of them in
// turn. On a GPU some 30 a multiprocessor: ten milliseconds in all, by counting instructions.
inline constexpr int kWgmmaProbeBlocks = 4096;
inline constexpr int kWgmmaProbeKinds = 8;

struct WgmmaProbe {
  int64_t compared = 0;   // sums
  int64_t different = 0;  // in their bits; of two NaN none counts
  // The same of attention's: left operands of wgmma are the right ones of mma.sync.
  int64_t sides_compared = 0, sides_different = 0;
};
// Multiplies the same operands by both instructions: random ones, of all exponents, that cancel,
// denormals, infinities and NaN, apart by as much as the tensor cores cut, zeros of both signs,
// near overflow; added to sums of the same kinds and to nothing; bf16 and f16; every place of the
// instructions that product_hopper.cu and product_ring.cu use, fetched as they fetch them; and
// those of attention_hopper.cu, whose left operands are the right ones of mma.sync. Waits for the
// device.
//
//   REQUIRES: compute capability 9.0     RESOURCE_EXHAUSTED when there is no memory for the
//   counters
absl::StatusOr<WgmmaProbe> ProbeWgmma(Runtime* runtime, int blocks = kWgmmaProbeBlocks);

struct WgmmaProbeArgs {
  int* compared = nullptr;
  int* different = nullptr;
};
// Starts the probe's kernels, or those of the sides; they add to the counters. How many sums they
// compare in all.
int64_t LaunchWgmmaProbe(const WgmmaProbeArgs& args, int blocks, Launcher* launcher);
int64_t LaunchWgmmaSidesProbe(const WgmmaProbeArgs& args, int blocks, Launcher* launcher);

}  // namespace tutti::kernels::cuda
