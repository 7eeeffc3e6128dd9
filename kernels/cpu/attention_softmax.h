// The state of one item of attention, and its online softmax: scores of a tile of slots become
// weights, and what earlier tiles have summed shrinks.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// Rows of scores are 16 floats longer than a tile, so that they do not share cache sets.
inline constexpr int64_t kScoreStride = kAttentionTileSlots + 16;

// State of one item, carved from the caller's scratch.
template <class Format>
struct AttentionState {
  const AttentionJob* job;
  const AttentionItem* item;
  int64_t out_cols;             // head_dim rounded up to 16
  typename Format::A* queries;  // tiles of rows, packed as the format's products take them
  float* outputs;               // [entries][out_cols], not yet divided by total
  float* largest;               // [entries]
  float* total;                 // [entries]
  float* scores;                // [rows of a tile, or of AMX's two][kScoreStride]
  typename Format::A* weights;  // the scores' exponentials, in the operand type; may be `scores`
};

// Scales row `row` of the scores, and masks them beyond `valid`. Their largest, or `before` if that
// is larger.
template <class Format>
TUTTI_INLINE float ScaleRow(const AttentionState<Format>& state, int64_t row, int64_t valid,
                            float before) {
  using S = typename Format::Simd;
  using F = typename Format::F;
  float* scores = state.scores + row * kScoreStride;
  const F scale = S::Set(state.job->scale);
  const F masked = S::Set(-__builtin_inff());
  F most = masked;
  for (int64_t i = 0; i < valid; i += 16) {
    F x = S::Mul(S::Load(scores + i), scale);
    if (valid - i < 16) x = S::SelectFirst(valid - i, x, masked);
    S::Store(scores + i, x);
    most = S::Max(most, x);
  }
  return S::ReduceMax(S::Max(S::Set(before), most));
}

// Row `row` of the scaled scores becomes weights e^(score - largest), 0 beyond `valid`. Their sum.
template <class Format>
TUTTI_INLINE float WeighRow(const AttentionState<Format>& state, int64_t row, int64_t valid,
                            float largest) {
  using S = typename Format::Simd;
  using F = typename Format::F;
  float* scores = state.scores + row * kScoreStride;
  const F shift = S::Set(largest);
  F sum = S::Zero();
  for (int64_t i = 0; i < valid; i += 16) {
    F weight = Exp<S>(S::Sub(S::Load(scores + i), shift));
    if constexpr (Format::kPerPair == 1) {
      auto* const to = reinterpret_cast<uint16_t*>(state.weights + row * (kScoreStride / 2)) + i;
      weight = S::StoreNormalBf16(to, weight);
    } else {
      if constexpr (Format::kRounds) weight = S::RoundToBf16(weight);
      S::Store(scores + i, weight);
    }
    sum = S::Add(sum, weight);
  }
  return S::ReduceAdd(sum);
}

// The scores of entries [entry, entry + R) become their weights in this tile; by how much the
// earlier tiles' sums shrink, for all rows at once.
template <class Format, int R>
static void SoftmaxRows(const AttentionState<Format>& state, int64_t entry, const int64_t* valid,
                        bool first, float* shrink) {
  using S = typename Format::Simd;
  static_assert(R <= 16);
  alignas(64) float before[16] = {};
  alignas(64) float now[16] = {};
  for (int r = 0; r < R; ++r) {
    before[r] = first ? -__builtin_inff() : state.largest[entry + r];
    now[r] = ScaleRow(state, r, valid[r], before[r]);
  }
  alignas(64) float shrinks[16] = {};
  if (!first) S::Store(shrinks, Exp<S>(S::Sub(S::Load(before), S::Load(now))));
  for (int r = 0; r < R; ++r) {
    shrink[r] = shrinks[r];
    const float carried = first ? 0.0f : state.total[entry + r] * shrinks[r];
    state.total[entry + r] = carried + WeighRow(state, r, valid[r], now[r]);
    state.largest[entry + r] = now[r];
  }
}

}  // namespace tutti::kernels::cpu
