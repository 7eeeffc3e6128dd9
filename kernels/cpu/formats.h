// The conversion of a packed unit to numbers, and its multiplication.
//
// A unit is 16 columns by two consecutive k, the layout of weight_layout.h. A format class names
// the element of the left operand (`A`), how many of them make a pair of k, and Step: for R rows
// and P panels,
//
//     acc[r][p] += a[r][k] * unit[p][k] + ...
//
// first one k of the pair, then the other, each rounded once.
//
// Step is the only arithmetic of matrix products and attention. Its order defines a numerics class.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {

// f32 products for every stored type: k even, then k odd.
template <class S, class Load>
struct FmaFormat {
  using Simd = S;
  using A = float;
  using F = typename S::F;
  static constexpr int kPerPair = 2;  // elements of A for one pair of k
  static constexpr int kUnitBytes = Load::kUnitBytes;

  template <int R, int P>
  TUTTI_INLINE void Half(F (&acc)[R][P], const F (&unit)[P], const A* a, int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F x = S::Broadcast(a + r * row_step);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) S::MulAdd(x, unit[p], &acc[r][p]);
    }
  }
  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
    StepEven(acc, unit, a, row_step);
    // The odd k are read from memory again. Kept in registers since the even ones, the raw words
    // would push accumulators out of them.
    asm volatile("" : : : "memory");
    F odd[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) odd[p] = Load::template Odd<S>(unit[p]);
    Half(acc, odd, a + 1, row_step);
  }
  // The even k alone: the odd one is neither read nor counted.
  template <int R, int P>
  TUTTI_INLINE void StepEven(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                             int64_t row_step) {
    F even[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) even[p] = Load::template Even<S>(unit[p]);
    Half(acc, even, a, row_step);
  }
};

struct LoadBf16Unit {
  static constexpr int kUnitBytes = 64;
  template <class S>
  TUTTI_INLINE typename S::F Even(const uint8_t* p) {
    return S::Bf16Low(p);
  }
  template <class S>
  TUTTI_INLINE typename S::F Odd(const uint8_t* p) {
    return S::Bf16High(p);
  }
};

struct LoadF16Unit {
  static constexpr int kUnitBytes = 64;
  template <class S>
  TUTTI_INLINE typename S::F Even(const uint8_t* p) {
    return S::LoadF16(reinterpret_cast<const uint16_t*>(p));
  }
  template <class S>
  TUTTI_INLINE typename S::F Odd(const uint8_t* p) {
    return S::LoadF16(reinterpret_cast<const uint16_t*>(p + 32));
  }
};

struct LoadF32Unit {
  static constexpr int kUnitBytes = 128;
  template <class S>
  TUTTI_INLINE typename S::F Even(const uint8_t* p) {
    return S::Load(reinterpret_cast<const float*>(p));
  }
  template <class S>
  TUTTI_INLINE typename S::F Odd(const uint8_t* p) {
    return S::Load(reinterpret_cast<const float*>(p + 64));
  }
};

// bf16 times bf16 by the dot instruction of S (S::Dot, S::DotEven): the left operand is rounded to
// bf16, two to a word.
template <class S>
struct DotFormat {
  using Simd = S;
  using A = uint32_t;
  using F = typename S::F;
  static constexpr int kPerPair = 1;
  static constexpr int kUnitBytes = 64;

  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = S::Dot(acc[r][p], a[r * row_step], unit[p]);
    }
  }
  template <int R, int P>
  TUTTI_INLINE void StepEven(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                             int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = S::DotEven(acc[r][p], a[r * row_step], unit[p]);
    }
  }
};

}  // namespace tutti::kernels::cpu
