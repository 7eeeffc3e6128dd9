// The sampling operators of kernels/backend.h, as kernels.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {

struct DeviceCandidate {
  int32_t id;
  float logit;
};
inline constexpr int32_t kNoCandidate = -1;
inline constexpr int32_t kUnusableRow = -2;  // it holds NaN or +Inf

// The largest logit of each part of a row and the first id that has it, so that a row has many
// multiprocessors; kNoCandidate where a part has only -Inf. The host puts parts together.
struct BestsArgs {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t stride = 0;
  DeviceCandidate* best = nullptr;  // [rows, parts]
  int64_t rows = 0;
  int32_t vocab = 0;
  int32_t part = 0;   // logits of one
  int32_t parts = 0;  // that cover a row
  int32_t gap = 0;
};
void LaunchFindBests(const BestsArgs& args, Launcher* launcher);

struct LogitsArgs {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t stride = 0;
  int64_t rows = 0, vocab = 0;
  double inverse_temperature = 1;
  double* log_sum = nullptr;  // [rows]
};
void LaunchLogSumExp(const LogitsArgs& args, Launcher* launcher);

// The adjustments of one logit, in their order: [first[i], first[i + 1]) of `repetition` and
// `bias`. Entries without any are skipped.
struct AdjustArgs {
  float* logits = nullptr;
  int64_t stride = 0;
  int64_t count = 0;               // of logits, those with adjustments all different
  const int32_t* row = nullptr;    // [count]
  const int32_t* id = nullptr;     // [count]
  const int32_t* first = nullptr;  // [count + 1]
  const float* repetition = nullptr;
  const float* bias = nullptr;
};
void LaunchAdjust(const AdjustArgs& args, Launcher* launcher);

// out[i] = logits[ids[i]]
struct PickArgs {
  const float* logits = nullptr;
  const int32_t* ids = nullptr;
  int64_t count = 0;
  float* out = nullptr;
};
void LaunchPick(const PickArgs& args, Launcher* launcher);

// In front of the candidates of one row: their count, and room up to the next 16 bytes.
inline constexpr auto kSelectCountBytes = kGpuSelectCountBytes;

// All of the `wanted` largest logits of each row, and those equal to the last of them, in no order.
// Of more than `room` the first that are found; their count says how many there were.
struct SelectArgs {
  const float* logits = nullptr;  // [.., vocab]
  int64_t stride = 0;
  int64_t rows = 1;
  const int32_t* row = nullptr;  // [rows] of `logits`; null: the first
  int32_t vocab = 0;
  int32_t wanted = 0;  // 1 to vocab
  int64_t room = 0;
  // Of each row its count, zeroed, room up to kSelectCountBytes, and its candidates [room].
  char* found = nullptr;
};
// Bytes of `found` for one row.
inline constexpr int64_t SelectBytes(int64_t room) {
  return kSelectCountBytes + room * static_cast<int64_t>(sizeof(DeviceCandidate));
}
void LaunchSelect(const SelectArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
