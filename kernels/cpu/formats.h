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
// A loop of steps stands between Begin and End of a Chains, through which its accumulators pass.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {

// Of formats whose steps need nothing of the processor's state.
struct PlainChains {
  template <class F, int R, int P>
  TUTTI_INLINE void Begin(F (&)[R][P], uint32_t*) {}
  template <class F, int R, int P>
  TUTTI_INLINE void End(F (&)[R][P], uint32_t) {}
};

// f32 products for every stored type: k even, then k odd.
template <class S, class Load>
struct FmaFormat {
  using Simd = S;
  using Chains = PlainChains;
  using A = float;
  using F = typename S::F;
  static constexpr int kPerPair = 2;      // elements of A for one pair of k
  static constexpr bool kRounds = false;  // the left operand, to bf16
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
  using Chains = PlainChains;
  using A = uint32_t;
  using F = typename S::F;
  static constexpr int kPerPair = 1;
  static constexpr bool kRounds = true;
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

// The bits of DotFormat by f32 multiply-adds, for processors on which those are quicker. The dot
// instruction is two of them, odd k first, that take denormals as zero and flush them, to nearest
// even, whatever MXCSR says; so MXCSR is made to say it from Begin to End.
// (dot_instruction_test.cc)
template <class S>
struct FlushedFormat {
  using Simd = S;
  using A = float;  // rounded to bf16
  using F = typename S::F;
  static constexpr int kPerPair = 2;
  static constexpr bool kRounds = true;
  static constexpr int kUnitBytes = 64;

  struct Chains {
    template <int R, int P>
    TUTTI_INLINE void Begin(F (&acc)[R][P], uint32_t* before) {
      const uint32_t flushing = 0x9fc0;  // FTZ, DAZ, no traps, to nearest even
      Pin(acc);
      asm volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(*before) : "m"(flushing) : "memory");
      Pin(acc);
    }
    template <int R, int P>
    TUTTI_INLINE void End(F (&acc)[R][P], uint32_t before) {
      Pin(acc);
      asm volatile("ldmxcsr %0" : : "m"(before) : "memory");
      Pin(acc);
    }

   private:
    // The compiler keeps what makes these sums on one side and what uses them on the other. Nothing
    // else in the function may add or multiply.
    template <int R, int P>
    TUTTI_INLINE void Pin(F (&acc)[R][P]) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) S::Pin(&acc[r][p]);
      }
    }
  };

  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
    F odd[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) odd[p] = S::Bf16High(unit[p]);
    Half(acc, odd, a + 1, row_step);
    asm volatile("" : : : "memory");  // as in FmaFormat
    F even[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) even[p] = S::Bf16Low(unit[p]);
    Half(acc, even, a, row_step);
  }

  // The odd half of the pair is a product of zeros: it makes -0 to +0.
  template <int R, int P>
  TUTTI_INLINE void StepEven(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                             int64_t row_step) {
    const float nothing = 0;
    F zero[P];
    F even[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) zero[p] = S::Zero(), even[p] = S::Bf16Low(unit[p]);
    Half(acc, zero, &nothing, 0);
    Half(acc, even, a, row_step);
  }

 private:
  template <int R, int P>
  TUTTI_INLINE void Half(F (&acc)[R][P], const F (&unit)[P], const A* a, int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F x = S::Broadcast(a + r * row_step);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) S::MulAdd(x, unit[p], &acc[r][p]);
    }
  }
};

}  // namespace tutti::kernels::cpu
