// The first candidates of rows of logits, by (logit descending, id ascending), as kernels.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/sampling.h"

namespace tutti::kernels::cuda {

// Of each part of a row its `wanted` first, in no order, and kNoCandidate behind them where it has
// fewer. NaN is none. The first of a row are among those of its parts, so that rows are taken part
// by part, and then their candidates, until a row is one part.
struct SelectPartsArgs {
  const float* logits = nullptr;  // [.., count]
  int64_t stride = 0;
  const int32_t* row = nullptr;  // [rows] of `logits`; null: the first
  // [rows, count] instead of logits, where it is not null
  const DeviceCandidate* candidates = nullptr;
  DeviceCandidate* out = nullptr;  // [rows, parts, wanted]
  int64_t rows = 0;
  int32_t count = 0;    // of a row
  int32_t part = 0;     // kSelectPart or kSelectPartOfFew
  int32_t parts = 0;    // that cover a row
  int32_t wanted = 0;   // at least 1
  int32_t id_bits = 0;  // that ids have at most
  int32_t gap = 0;
};
void LaunchSelectParts(const SelectPartsArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
