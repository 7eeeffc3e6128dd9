// The sampling operators of kernels/backend.h, as kernels. Launch functions return 0 or the CUDA
// error.
#pragma once

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

struct LogitsArgs {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t stride = 0;
  int64_t rows = 0, vocab = 0;
  double inverse_temperature = 1;
  int32_t* best = nullptr;    // [rows], of LaunchArgMax
  double* log_sum = nullptr;  // [rows], of LaunchLogSumExp
};
int LaunchArgMax(const LogitsArgs& args, Stream stream);
int LaunchLogSumExp(const LogitsArgs& args, Stream stream);

// The adjustments of one logit, in their order: [first[i], first[i + 1]) of `repetition` and
// `bias`.
struct AdjustArgs {
  float* logits = nullptr;
  int64_t stride = 0;
  int32_t count = 0;               // of different logits
  const int32_t* row = nullptr;    // [count]
  const int32_t* id = nullptr;     // [count]
  const int32_t* first = nullptr;  // [count + 1]
  const float* repetition = nullptr;
  const float* bias = nullptr;
};
int LaunchAdjust(const AdjustArgs& args, Stream stream);

// out[i] = logits[ids[i]]
struct PickArgs {
  const float* logits = nullptr;
  const int32_t* ids = nullptr;
  int64_t count = 0;
  float* out = nullptr;
};
int LaunchPick(const PickArgs& args, Stream stream);

struct DeviceCandidate {
  int32_t id;
  float logit;
};

// All of the `wanted` largest logits of one row, and those equal to the last of them, in no order.
struct SelectArgs {
  const float* logits = nullptr;  // [vocab]
  int32_t vocab = 0;
  int32_t wanted = 0;  // 1 to vocab
  int32_t* count = nullptr;
  DeviceCandidate* candidates = nullptr;  // [vocab]
};
int LaunchSelect(const SelectArgs& args, Stream stream);

// Whole numbers in the order of the floats: NaN first, then -Inf up to +Inf; -0 equals 0.
TUTTI_HOST_DEVICE uint32_t OrderedBits(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  if (bits == 0x80000000u) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace tutti::kernels::cuda
