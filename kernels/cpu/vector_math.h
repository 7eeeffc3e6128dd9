// Functions of sixteen lanes, built from exactly rounded operations so that every instruction set
// agrees on each bit. No library mathematics: its results differ between versions and machines.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {

// The first min(n, 16) lanes. A full store is much cheaper than a masked one.
template <class S>
TUTTI_INLINE void StoreUpTo(float* p, typename S::F x, int64_t n) {
  if (n >= 16) {
    S::Store(p, x);
  } else {
    S::StoreFirst(p, x, n);
  }
}
template <class S>
TUTTI_INLINE typename S::F LoadUpTo(const float* p, int64_t n) {
  return n >= 16 ? S::Load(p) : S::LoadFirst(p, n);
}

// e^x to 1.5 ulp. Below the smallest normal result 0; above e^88 it stays at e^88. NaN stays NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. ln 2 is split so that n * kLn2High is
// exact. The polynomial for (e^r - 1 - r) / r^2 interpolates at the five Chebyshev nodes of the
// interval; its error is 1.1e-8, a tenth of an ulp.
template <class S>
TUTTI_INLINE typename S::F Exp(typename S::F x) {
  using F = typename S::F;
  constexpr float kLowest = -87.3f;  // e^kLowest is a normal number: 2^-125.95
  constexpr float kHighest = 88.0f;
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  const F lowest = S::Set(kLowest);
  // Max and Min return their second argument when one is NaN.
  const F clamped = S::Min(S::Set(kHighest), S::Max(lowest, x));
  const F n = S::RoundToInt(S::Mul(clamped, S::Set(kLog2E)));
  F r = S::Fma(n, S::Set(-kLn2High), clamped);
  r = S::Fma(n, S::Set(-kLn2Low), r);
  F p = S::Set(0x1.6d1150p-10f);
  p = S::Fma(p, r, S::Set(0x1.120bb6p-7f));
  p = S::Fma(p, r, S::Set(0x1.55551ap-5f));
  p = S::Fma(p, r, S::Set(0x1.5554dcp-3f));
  p = S::Fma(p, r, S::Set(0.5f));
  p = S::Fma(p, S::Mul(r, r), r);
  p = S::Mul(S::Add(p, S::Set(1.0f)), S::Pow2(n));
  return S::ZeroWhereLess(p, x, lowest);
}

}  // namespace tutti::kernels::cpu
