// Passes over one row of logits.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/vector_math.h"

namespace tutti::kernels::cpu {

template <class S>
static float Largest(const float* x, int64_t cols) {
  using F = typename S::F;
  const F lowest = S::Set(-__builtin_inff());
  F most[4] = {lowest, lowest, lowest, lowest};
  uint32_t nan = 0;
  int64_t i = 0;
  for (; i + 64 <= cols; i += 64) {
    F value[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      value[v] = S::Load(x + i + 16 * v);
      most[v] = S::Max(most[v], value[v]);
    }
    nan |= S::NanMask(value[0], value[1]) | S::NanMask(value[2], value[3]);
  }
  for (; i < cols; i += 16) {
    const F value = S::SelectFirst(cols - i, LoadUpTo<S>(x + i, cols - i), lowest);
    most[0] = S::Max(most[0], value);
    nan |= S::NanMask(value, value);
  }
  if (nan != 0) return __builtin_nanf("");
  return S::ReduceMax(S::Max(S::Max(most[0], most[1]), S::Max(most[2], most[3])));
}

template <class S, class Compare>
TUTTI_INLINE int64_t FindFirst(const float* x, int64_t begin, int64_t cols, Compare compare) {
  int64_t i = begin;
  for (; i + 64 <= cols; i += 64) {
    const uint64_t mask = static_cast<uint64_t>(compare(S::Load(x + i))) |
                          static_cast<uint64_t>(compare(S::Load(x + i + 16))) << 16 |
                          static_cast<uint64_t>(compare(S::Load(x + i + 32))) << 32 |
                          static_cast<uint64_t>(compare(S::Load(x + i + 48))) << 48;
    if (mask != 0) return i + __builtin_ctzll(mask);
  }
  for (; i < cols; i += 16) {
    uint32_t mask = compare(LoadUpTo<S>(x + i, cols - i));
    if (cols - i < 16) mask &= (1u << (cols - i)) - 1u;
    if (mask != 0) return i + __builtin_ctz(mask);
  }
  return cols;
}

template <class S>
static int64_t FindEqual(const float* x, int64_t begin, int64_t cols, float value) {
  const typename S::F key = S::Set(value);
  return FindFirst<S>(x, begin, cols, [key](typename S::F y) { return S::EqualMask(y, key); });
}

// Lane i % 16 takes element i, in order; the sixteen f64 sums are added in a tree of neighbours.
template <class S>
static double SumExp(const float* x, int64_t cols, float shift, float factor) {
  using F = typename S::F;
  const F center = S::Set(shift);
  const F scale = S::Set(factor);
  const F nothing = S::Set(-__builtin_inff());
  typename S::F64Sum sum = S::ZeroF64();
  for (int64_t i = 0; i < cols; i += 16) {
    F y = S::Mul(S::Sub(LoadUpTo<S>(x + i, cols - i), center), scale);
    if (cols - i < 16) y = S::SelectFirst(cols - i, y, nothing);
    S::AddF64(&sum, Exp<S>(y));
  }
  double lanes[16];
  S::StoreF64(lanes, sum);
  for (int step = 1; step < 16; step *= 2) {
    for (int i = 0; i < 16; i += 2 * step) lanes[i] += lanes[i + step];
  }
  return lanes[0];
}

}  // namespace tutti::kernels::cpu
