// Row-wise operators over sixteen lanes. Sums run over 64 lanes in a fixed pattern: vector b of a
// row goes to accumulator b % 4, the four are added as ((0 + 1) + (2 + 3)), and the lanes in the
// tree of S::ReduceAdd.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "kernels/cpu/inline.h"
#include "kernels/cpu/vector_math.h"

namespace tutti::kernels::cpu {

template <class S>
static float SumOfSquares(const float* x, int64_t cols) {
  using F = typename S::F;
  F sum[4] = {S::Zero(), S::Zero(), S::Zero(), S::Zero()};
  int64_t i = 0;
  for (; i + 64 <= cols; i += 64) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const F value = S::Load(x + i + 16 * v);
      sum[v] = S::Fma(value, value, sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    if (i + 16 * v < cols) {
      const F value = LoadUpTo<S>(x + i + 16 * v, cols - i - 16 * v);
      sum[v] = S::Fma(value, value, sum[v]);
    }
  }
  return S::ReduceAdd(S::Add(S::Add(sum[0], sum[1]), S::Add(sum[2], sum[3])));
}

template <class S>
static void RmsNormRow(const float* in, const float* weight, float epsilon, float* out,
                       int64_t cols) {
  using F = typename S::F;
  const float mean = SumOfSquares<S>(in, cols) / static_cast<float>(cols);
  const F inverse = S::Set(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int64_t i = 0; i < cols; i += 16) {
    const F x = LoadUpTo<S>(in + i, cols - i);
    const F w = LoadUpTo<S>(weight + i, cols - i);
    StoreUpTo<S>(out + i, S::Mul(S::Mul(x, inverse), w), cols - i);
  }
}

template <class S>
static void HeadNormRopeRow(float* row, int64_t heads, int64_t head_dim, const float* norm,
                            float epsilon, const float* cosine, const float* sine) {
  using F = typename S::F;
  const int64_t half = head_dim / 2;
  for (int64_t h = 0; h < heads; ++h) {
    float* x = row + h * head_dim;
    if (norm != nullptr) RmsNormRow<S>(x, norm, epsilon, x, head_dim);
    for (int64_t i = 0; i < half; i += 16) {
      const int64_t n = half - i;
      const F a = LoadUpTo<S>(x + i, n);
      const F b = LoadUpTo<S>(x + half + i, n);
      const F c = LoadUpTo<S>(cosine + i, n);
      const F s = LoadUpTo<S>(sine + i, n);
      StoreUpTo<S>(x + i, S::Sub(S::Mul(a, c), S::Mul(b, s)), n);
      StoreUpTo<S>(x + half + i, S::Add(S::Mul(b, c), S::Mul(a, s)), n);
    }
  }
}

template <class S>
TUTTI_INLINE typename S::F Rounded(typename S::F x, DType type) {
  if (type == DType::kBF16) return S::RoundToBf16(x);
  if (type == DType::kF16) return S::RoundToF16(x);
  return x;
}

template <class S>
static void AddRow(float* x, const float* y, int64_t cols, DType round_to) {
  for (int64_t i = 0; i < cols; i += 16) {
    const typename S::F sum = S::Add(LoadUpTo<S>(x + i, cols - i), LoadUpTo<S>(y + i, cols - i));
    StoreUpTo<S>(x + i, Rounded<S>(sum, round_to), cols - i);
  }
}

template <class S>
static void SiluMulRow(const float* gate, const float* up, float* out, int64_t cols) {
  using F = typename S::F;
  for (int64_t i = 0; i < cols; i += 16) {
    const F x = LoadUpTo<S>(gate + i, cols - i);
    const F denominator = S::Add(S::Set(1.0f), Exp<S>(S::Sub(S::Zero(), x)));
    const F y = S::Mul(S::Div(x, denominator), LoadUpTo<S>(up + i, cols - i));
    StoreUpTo<S>(out + i, y, cols - i);
  }
}

// Sixteen elements of any type.
template <class S>
TUTTI_INLINE typename S::F LoadAs(const void* p, DType type) {
  if (type == DType::kF32) return S::Load(static_cast<const float*>(p));
  if (type == DType::kBF16) return S::LoadBf16(static_cast<const uint16_t*>(p));
  return S::LoadF16(static_cast<const uint16_t*>(p));
}
template <class S>
TUTTI_INLINE void StoreAs(void* p, DType type, typename S::F x) {
  if (type == DType::kF32) {
    S::Store(static_cast<float*>(p), x);
  } else if (type == DType::kBF16) {
    S::StoreBf16(static_cast<uint16_t*>(p), x);
  } else {
    S::StoreF16(static_cast<uint16_t*>(p), x);
  }
}

template <class S>
static void ConvertRow(const void* in, DType in_type, void* out, DType out_type, int64_t cols) {
  const int64_t in_bytes = in_type == DType::kF32 ? 4 : 2;
  const int64_t out_bytes = out_type == DType::kF32 ? 4 : 2;
  const uint8_t* from = static_cast<const uint8_t*>(in);
  uint8_t* to = static_cast<uint8_t*>(out);
  int64_t i = 0;
  for (; i + 16 <= cols; i += 16, from += 16 * in_bytes, to += 16 * out_bytes) {
    StoreAs<S>(to, out_type, LoadAs<S>(from, in_type));
  }
  if (i < cols) {
    alignas(64) uint8_t last[64] = {};
    std::memcpy(last, from, static_cast<size_t>((cols - i) * in_bytes));
    StoreAs<S>(last, out_type, LoadAs<S>(last, in_type));
    std::memcpy(to, last, static_cast<size_t>((cols - i) * out_bytes));
  }
}

}  // namespace tutti::kernels::cpu
