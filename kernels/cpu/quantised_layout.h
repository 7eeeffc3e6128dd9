// Where the codes of a packed quantised weight lie.
//
//   section  rows of the weight whose inputs are divided alike; begins with a group of its own
//   group    64 columns of out, as of other weights (weight_layout.h)
//   strip  of kernels/quantised_source.h: scales of 64 columns, their zero points, a byte each,
//            where there are any, their inner scales, for each 16 inputs a byte each, where the
//            kind has any, and the codes
//   line     64 bytes: 16 columns by 8 k of 4 bits, or by 4 k of 8
//
//   bytes = [sections][groups][strips: scales, zeros, inner, [k in eights or fours][4 lines]]
//
// A line has a word of 32 bits for each column: the codes of even k in its lower half, of odd k in
// its upper half, each from the lowest bits on. So a shift, and a table where codes are of 4 bits,
// makes of it a unit of bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/weight_layout.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels::cpu {

inline constexpr int64_t kLineBytes = 64;

// The inputs of a line.
constexpr int64_t LineInputs(CodeKind kind) { return 32 / CodeBits(kind); }

// Bytes of the scales of a strip, and of its zero points.
constexpr int64_t StripScaleBytes(DType scale_type) {
  return kGroupColumns * DTypeBytes(scale_type);
}
constexpr int64_t StripZeroBytes(bool has_zeros) { return has_zeros ? kGroupColumns : 0; }
constexpr int64_t StripInnerBytes(CodeKind kind, int64_t padded) {
  return HasInnerScales(kind) ? padded / kInnerInputs * kGroupColumns : 0;
}
static_assert(kQuantisedColumns == kGroupColumns);

}  // namespace tutti::kernels::cpu
