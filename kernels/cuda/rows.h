// The row-wise operators of kernels/backend.h, as kernels. The sums of a row run over
// kRowThreads partial sums (a warp's 32 for a head), added in one tree, so a row's bits depend on
// its width alone.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {

struct RmsNormArgs {
  const float* in = nullptr;  // [rows, cols]
  int64_t in_stride = 0;
  const float* weight = nullptr;  // [cols]
  float* out = nullptr;           // may be `in`
  int64_t out_stride = 0;
  int64_t rows = 0, cols = 0;
  float epsilon = 0;
  int32_t gap = 0;
};
void LaunchRmsNorm(const RmsNormArgs& args, Launcher* launcher);

struct HeadNormRopeArgs {
  float* x = nullptr;  // [rows, heads * head_dim]
  int64_t stride = 0;
  int64_t rows = 0, heads = 0;
  int32_t head_dim = 0;
  float epsilon = 0;
  const float* norm = nullptr;               // [head_dim], or nullptr
  const int32_t* position = nullptr;         // [rows]
  const float* inverse_frequency = nullptr;  // [head_dim / 2]
};
void LaunchHeadNormRope(const HeadNormRopeArgs& args, Launcher* launcher);

// One value at a time: which, says the launch function.
struct ElementArgs {
  const void* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0, cols = 0;
  DType a_type = DType::kF32;
  DType out_type = DType::kF32;  // of LaunchAddRounded: the type that the sum is rounded to
  uint8_t gap[6] = {};
};
// out = a + b[0, :]
void LaunchAddRow(const ElementArgs& args, Launcher* launcher);
// out[:, i] = silu(a[:, i]) * a[:, cols + i]
void LaunchSiluMul(const ElementArgs& args, Launcher* launcher);
// out = round(a + b), all f32
void LaunchAddRounded(const ElementArgs& args, Launcher* launcher);
// out = a, converted
void LaunchConvert(const ElementArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
