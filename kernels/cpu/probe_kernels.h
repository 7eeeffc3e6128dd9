// Loops that find a machine's limits: as many operations, or as many bytes read, as it can do.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// Adds a turn to the sums; with kAhead what lies `ahead` bytes behind it is fetched.
template <class S, bool kAhead>
TUTTI_INLINE void ReadTurn(const uint8_t* data, int64_t bytes, int64_t ahead,
                           typename S::F (&sum)[4]) {
  const float* x = reinterpret_cast<const float*>(data);
  for (int64_t i = 0; i + 64 <= bytes / 4; i += 64) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      if constexpr (kAhead) {
        __builtin_prefetch(reinterpret_cast<const uint8_t*>(x + i + 16 * v) + ahead, 0, 3);
      }
      sum[v] = S::Add(sum[v], S::Load(x + i + 16 * v));
    }
  }
}

// Reads everything once: `streams` equal parts side by side, kStreamTurnBytes of each in turn.
// Returns something that depends on all of it.
template <class S>
static float ReadAll(const uint8_t* data, int64_t bytes, int64_t streams, int64_t ahead) {
  typename S::F sum[4] = {S::Zero(), S::Zero(), S::Zero(), S::Zero()};
  const int64_t part = bytes / streams;
  for (int64_t at = 0; at < part; at += kStreamTurnBytes) {
    const int64_t turn = part - at < kStreamTurnBytes ? part - at : kStreamTurnBytes;
    for (int64_t s = 0; s < streams; ++s) {
      if (ahead > 0) {
        ReadTurn<S, true>(data + s * part + at, turn, ahead, sum);
      } else {
        ReadTurn<S, false>(data + s * part + at, turn, 0, sum);
      }
    }
  }
  return S::ReduceAdd(S::Add(S::Add(sum[0], sum[1]), S::Add(sum[2], sum[3])));
}

// `rounds` times kProbeChains independent steps, each hiding behind the others. Returns the
// operations done.
template <class S>
static int64_t FmaBurst(int64_t rounds) {
  using F = typename S::F;
  F chain[S::kProbeChains];
  // Lanes that the compiler cannot know to be equal, or it would compute only half of them.
  float start[16 * S::kProbeChains];
  for (int i = 0; i < 16 * S::kProbeChains; ++i) start[i] = static_cast<float>(i);
  asm volatile("" : : "r"(start) : "memory");
  for (int i = 0; i < S::kProbeChains; ++i) chain[i] = S::Load(start + 16 * i);
  F factor = S::Set(0.5f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < S::kProbeChains; ++i) chain[i] = S::Fma(chain[i], factor, factor);
  }
  F keep = S::Zero();
  for (int i = 0; i < S::kProbeChains; ++i) keep = S::Add(keep, chain[i]);
  const float all = S::ReduceAdd(keep);
  asm volatile("" : : "x"(all));
  return rounds * S::kProbeChains * 16 * 2;
}

template <class S>
static int64_t DotBurst(int64_t rounds) {
  using F = typename S::F;
  alignas(64) const uint8_t unit[64] = {};
  F chain[S::kProbeChains];
  for (int i = 0; i < S::kProbeChains; ++i) chain[i] = S::Zero();
  for (int64_t round = 0; round < rounds; ++round) {
    const uint8_t* at = unit;
    asm volatile("" : "+r"(at));  // or the whole loop would be one known result
#pragma GCC unroll 16
    for (int i = 0; i < S::kProbeChains; ++i) chain[i] = S::Dot(chain[i], 0x3f803f80u, at);
  }
  F keep = S::Zero();
  for (int i = 0; i < S::kProbeChains; ++i) keep = S::Add(keep, chain[i]);
  const float all = S::ReduceAdd(keep);
  asm volatile("" : : "x"(all));
  return rounds * S::kProbeChains * 16 * 4;
}

}  // namespace tutti::kernels::cpu
