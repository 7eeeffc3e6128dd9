// Where a strip's parts lie within a group of codes (quantised_layout.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"

namespace tutti::kernels::cpu {

inline constexpr int64_t kQuantisedLineBytes = 64;
TUTTI_INLINE int64_t QuantisedLinePairs(CodeKind kind) {
  return kind == CodeKind::kInt8 || kind == CodeKind::kE4m3 ? 2 : 4;
}

// Of an inner scale.
inline constexpr int64_t kInnerPairs = 8;
inline constexpr int64_t kInnerLines = 2;

// What lies in a strip of a group.
struct QuantisedStrip {
  const uint8_t* scales;
  const uint8_t* zeros;  // null: none
  const uint8_t* inner;  // null: none
  const uint8_t* codes;
  int64_t pairs;
};
TUTTI_INLINE QuantisedStrip QuantisedStripAt(const QuantisedJob& job, const uint8_t* group,
                                             int64_t strip) {
  const uint8_t* at = group + job.strip_at[strip];
  QuantisedStrip found = {};
  found.pairs = job.rows.leaf_pair_begin[strip + 1] - job.rows.leaf_pair_begin[strip];
  found.scales = at;
  at += kMatMulGroupColumns * (job.scale_type == DType::kF32 ? 4 : 2);
  found.zeros = job.has_zeros ? at : nullptr;
  if (job.has_zeros) at += kMatMulGroupColumns;
  if (job.kind == CodeKind::kNvfp4) {
    found.inner = at;
    at += found.pairs / kInnerPairs * kMatMulGroupColumns;
  }
  found.codes = at;
  return found;
}

template <class S>
TUTTI_INLINE typename S::F LoadScales(const uint8_t* scales, DType type, int64_t column) {
  if (type == DType::kBF16) return S::LoadBf16(reinterpret_cast<const uint16_t*>(scales) + column);
  if (type == DType::kF16) return S::LoadF16(reinterpret_cast<const uint16_t*>(scales) + column);
  return S::Load(reinterpret_cast<const float*>(scales) + column);
}

// Sums that end a strip: acc = fma(sum, scale, acc), from +0 on where the strip is the first of its
// leaf.
struct ScaledSums {
  const uint8_t* scales;
  DType type;
  bool first;
  int64_t begun;  // floats from acc to where the strip's sums so far are; 0: there are none

  template <class S>
  [[gnu::always_inline]] typename S::F Begin(const float* acc) const {
    return begun == 0 ? S::Zero() : S::Load(acc + begun);
  }
  // To acc [R][64].
  template <class S, int R, int P>
  [[gnu::always_inline]] void End(const typename S::F (&sum)[R][P], float* acc) const {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      const typename S::F scale = LoadScales<S>(scales, type, 16 * p);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        float* const to = acc + r * kMatMulGroupColumns + 16 * p;
        S::Store(to, S::Fma(sum[r][p], scale, first ? S::Zero() : S::Load(to)));
      }
    }
  }
  // Of the columns from panel `panel` on.
  [[gnu::always_inline]] ScaledSums From(int64_t panel) const {
    return {scales + 16 * panel * (type == DType::kF32 ? 4 : 2), type, first, begun};
  }
};

}  // namespace tutti::kernels::cpu
