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

// LogSumExp of each range of each row that has an inverse temperature above 0.
struct LogSumsArgs {
  const float* logits = nullptr;  // [rows, ..]
  int64_t stride = 0;
  const double* inverse_temperature = nullptr;  // [sums, rows]
  const int32_t* range = nullptr;               // [ranges, 2]: first column, number of columns
  double* log_sum = nullptr;                    // [sums, rows, ranges]
  int32_t sums = 0;
  int32_t rows = 0;
  int32_t ranges = 0;
  int32_t gap = 0;
};
void LaunchLogSums(const LogSumsArgs& args, Launcher* launcher);

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

// Of row row[i] the logits stay whose bit is set, bit c % 32 of masks[i, c / 32].
struct MaskArgs {
  float* logits = nullptr;
  int64_t stride = 0;
  const int32_t* row = nullptr;    // [rows]
  const int32_t* masks = nullptr;  // [rows, words]
  int32_t vocab = 0;
  int32_t rows = 0;
  int32_t words = 0;
  int32_t gap = 0;
};
void LaunchMask(const MaskArgs& args, Launcher* launcher);

// out[i] = logits[ids[i]]
struct PickArgs {
  const float* logits = nullptr;
  const int32_t* ids = nullptr;
  int64_t count = 0;
  float* out = nullptr;
};
void LaunchPick(const PickArgs& args, Launcher* launcher);

// In front of the candidates: their count, and room up to the next 16 bytes.
inline constexpr auto kSelectCountBytes = kGpuSelectCountBytes;

// All of the `wanted` largest logits of a row, and those equal to the last of them, in no order.
// For more than kSelectedMax (selection.h): one block looks through the whole row, five times.
struct SelectArgs {
  const float* logits = nullptr;  // [vocab]
  // The count, zeroed, room up to kSelectCountBytes, and candidates [vocab].
  char* found = nullptr;
  int32_t vocab = 0;
  int32_t wanted = 0;  // 1 to vocab
};
// Bytes of `found`.
inline constexpr int64_t SelectBytes(int64_t vocab) {
  return kSelectCountBytes + vocab * static_cast<int64_t>(sizeof(DeviceCandidate));
}
void LaunchSelect(const SelectArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
