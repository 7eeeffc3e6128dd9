// The conversion of a packed unit to numbers, and its multiplication.
//
// A unit is 16 columns by two consecutive k, the layout of weight_layout.h. A format class names
// the element of the left operand (`A`), how many of them make a pair of k, and Step: for R rows
// and P panels,
//
//     acc[r][p] += a[r][k] * unit[p][k] + ...
//
// first one k of the pair, then the other, each rounded once. A format whose sums are of blocks
// (kBlockPairs > 0, the pairs of k in a block) has Blocks instead.
//
// They are the only arithmetic of matrix products and attention. Its order defines a numerics
// class. A loop of steps stands between Begin and End of a Chains, through which its accumulators
// pass.
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

// acc[r][p] += a[r] * unit[p], one element of A for each row.
template <class S, int R, int P>
TUTTI_INLINE void MulAddRows(typename S::F (&acc)[R][P], const typename S::F (&unit)[P],
                             const float* a, int64_t row_step) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const typename S::F x = S::Broadcast(a + r * row_step);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) S::MulAdd(x, unit[p], &acc[r][p]);
  }
}

// The same of rows that lie as Rows has them, `odd` elements on, by units in registers.
template <class S, int R, int P, class Rows>
TUTTI_INLINE void MulAddUnits(typename S::F (&acc)[R][P], const typename S::F (&unit)[P],
                              const Rows& rows, int64_t odd) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const typename S::F x = S::Broadcast(rows.At(r) + odd);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) S::MulAdd(x, unit[p], &acc[r][p]);
  }
}

// Both k of a pair by units of bf16 in registers, one after the other.
template <class S, bool kOddFirst, int R, int P, class Unit, class Rows>
TUTTI_INLINE void MulAddBothHalves(typename S::F (&acc)[R][P], const Unit (&unit)[P],
                                   const Rows& rows) {
  typename S::F half[P];
#pragma GCC unroll 2
  for (int second = 0; second < 2; ++second) {
    const bool odd = kOddFirst == (second == 0);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) half[p] = odd ? S::HighOf(unit[p]) : S::LowOf(unit[p]);
    MulAddUnits<S>(acc, half, rows, odd ? 1 : 0);
  }
}

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
  static constexpr int64_t kBlockPairs = 0;

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
    MulAddRows<S>(acc, odd, a + 1, row_step);
  }
  // The same of units of bf16 in registers.
  template <int R, int P, class Unit, class Rows>
  TUTTI_INLINE void StepUnits(F (&acc)[R][P], const Unit (&unit)[P], const Rows& rows) {
    MulAddBothHalves<S, false>(acc, unit, rows);
  }
  // The even k alone: the odd one is neither read nor counted.
  template <int R, int P>
  TUTTI_INLINE void StepEven(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                             int64_t row_step) {
    F even[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) even[p] = Load::template Even<S>(unit[p]);
    MulAddRows<S>(acc, even, a, row_step);
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
  static constexpr int64_t kBlockPairs = 0;

  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = S::Dot(acc[r][p], a[r * row_step], unit[p]);
    }
  }
  // The same of units in registers, and of rows that lie as Rows has them.
  template <int R, int P, class Unit, class Rows>
  TUTTI_INLINE void StepUnits(F (&acc)[R][P], const Unit (&unit)[P], const Rows& rows) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = S::DotUnit(acc[r][p], *rows.At(r), unit[p]);
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

// Integers of 16 bits, two to a word on both sides: accumulators are sums of 32 bits, which are
// exact (S::DotIntegers), in the place of floats.
template <class S>
struct IntegerFormat {
  using Simd = S;
  using Chains = PlainChains;
  using A = uint32_t;
  using F = typename S::F;
  static constexpr int kPerPair = 1;
  static constexpr bool kRounds = true;
  static constexpr int kUnitBytes = 64;
  static constexpr int64_t kBlockPairs = 0;

  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = S::DotIntegers(acc[r][p], a[r * row_step], unit[p]);
    }
  }
};
template <class Format>
inline constexpr bool kOfIntegers = false;
template <class S>
inline constexpr bool kOfIntegers<IntegerFormat<S>> = true;

// Of formats whose f32 instructions take denormals as zero and flush them, to nearest even, as the
// instructions for bf16 do whatever MXCSR says: it is made to say so from Begin to End.
template <class S>
struct FlushingChains {
  using F = typename S::F;

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

// The bits of DotFormat by f32 multiply-adds, for processors on which those are quicker. The dot
// instruction is two of them, odd k first, that flush (dot_instruction_test.cc).
template <class S>
struct FlushedFormat {
  using Simd = S;
  using Chains = FlushingChains<S>;
  using A = float;  // rounded to bf16
  using F = typename S::F;
  static constexpr int kPerPair = 2;
  static constexpr bool kRounds = true;
  static constexpr int kUnitBytes = 64;
  static constexpr int64_t kBlockPairs = 0;

  template <int R, int P>
  TUTTI_INLINE void Step(F (&acc)[R][P], const uint8_t* const (&unit)[P], const A* a,
                         int64_t row_step) {
    F odd[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) odd[p] = S::Bf16High(unit[p]);
    MulAddRows<S>(acc, odd, a + 1, row_step);
    asm volatile("" : : : "memory");  // as in FmaFormat
    F even[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) even[p] = S::Bf16Low(unit[p]);
    MulAddRows<S>(acc, even, a, row_step);
  }
  template <int R, int P, class Unit, class Rows>
  TUTTI_INLINE void StepUnits(F (&acc)[R][P], const Unit (&unit)[P], const Rows& rows) {
    MulAddBothHalves<S, true>(acc, unit, rows);
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
    MulAddRows<S>(acc, zero, &nothing, 0);
    MulAddRows<S>(acc, even, a, row_step);
  }
};

// Sums of blocks, the order of AMX's tiles, by f32 multiply-adds that flush: within a block of 32 k
// one chain over the even k and one over the odd k, both from +0; then their sum is added to the
// accumulator. A block with fewer k is as one that is filled up with zeros.
// (docs/decisions/0075-sums-of-blocks.md)
template <class S>
struct BlockFormat {
  using Simd = S;
  using Chains = FlushingChains<S>;
  using A = float;  // rounded to bf16, denormals before that to zero
  using F = typename S::F;
  static constexpr int kPerPair = 2;
  static constexpr bool kRounds = true;
  static constexpr int kUnitBytes = 64;
  static constexpr int64_t kBlockPairs = 16;

  // One block: the even k of pairs [begin, even_end), the odd k of [begin, odd_end). at(pair, unit,
  // first) sets unit[p] to where the pair's units lie, which are read twice, the first time for
  // their even k; `a` is where pair 0 lies.
  template <int R, int P, class At>
  TUTTI_INLINE void Block(F (&acc)[R][P], int64_t begin, int64_t even_end, int64_t odd_end,
                          const At& at, const A* a, int64_t row_step, int64_t pair_step) {
    const bool ragged = odd_end - begin < kBlockPairs;
    alignas(64) float kept[R * P * 16];
    F sum[R][P];
    Zero(sum);
    for (int64_t pair = begin; pair < even_end; ++pair) {
      const uint8_t* unit[P];
      at(pair, unit, true);
      F even[P];
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) even[p] = S::Bf16Low(unit[p]);
      MulAddRows<S>(sum, even, a + pair * pair_step, row_step);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        if (ragged) sum[r][p] = S::Add(sum[r][p], S::Zero());
        S::Store(kept + (r * P + p) * 16, sum[r][p]);
      }
    }
    Zero(sum);
    for (int64_t pair = begin; pair < odd_end; ++pair) {
      const uint8_t* unit[P];
      at(pair, unit, false);
      F odd[P];
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) odd[p] = S::Bf16High(unit[p]);
      MulAddRows<S>(sum, odd, a + pair * pair_step + 1, row_step);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        if (ragged) sum[r][p] = S::Add(sum[r][p], S::Zero());
        acc[r][p] = S::Add(acc[r][p], S::Add(S::Load(kept + (r * P + p) * 16), sum[r][p]));
      }
    }
  }

  // The blocks of pairs [begin, end), `begin` being a block's first.
  template <int R, int P, class At>
  TUTTI_INLINE void Blocks(F (&acc)[R][P], int64_t begin, int64_t end, const At& at, const A* a,
                           int64_t row_step, int64_t pair_step) {
    for (int64_t pair = begin; pair < end; pair += kBlockPairs) {
      const int64_t block_end = end < pair + kBlockPairs ? end : pair + kBlockPairs;
      Block(acc, pair, block_end, block_end, at, a, row_step, pair_step);
    }
  }

 private:
  // Pinned: these chains, too, begin where MXCSR says that they flush.
  template <int R, int P>
  TUTTI_INLINE void Zero(F (&sum)[R][P]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) sum[r][p] = S::Zero(), S::Pin(&sum[r][p]);
    }
  }
};

}  // namespace tutti::kernels::cpu
