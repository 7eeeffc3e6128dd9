// Causal attention of one KV head for query rows of one sequence, with online softmax over tiles of
// slots.
//
// A row's result depends on its position alone. Tiles start at absolute slot 0 and end at fixed
// slots. In each tile a row takes its own slots [0, valid) and nothing else: scores beyond are
// masked before the maximum, and values beyond are not multiplied, not even by zero, because a
// stale slot may hold NaN and a later one infinity. Rows of a register tile share the steps they
// have in common and finish one by one, so their chains are the same as alone.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/formats.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/pack_rows.h"
#include "kernels/cpu/slice_count.h"
#include "kernels/cpu/slot_tile.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// Up to so many rows a tile that nobody else reads is waited for more than it is computed with: its
// keys come by the hardware's own fetching, which is quickest with several streams. So groups are
// read in turns, so many at once, by so many pairs of d: 256 bytes of bf16, or a block.
// (docs/decisions/0074-several-streams.md)
inline constexpr int kTurnRows = 2;
inline constexpr int64_t kScoreStreams = 4;  // a multiple of every AttentionPanels
template <class Format>
inline constexpr int64_t kScoreTurnPairs = Format::kBlockPairs > 0 ? Format::kBlockPairs : 4;
template <class Format>
constexpr bool TakesTurns(int rows) {
  return rows <= kTurnRows && Format::Simd::AttentionPanels(rows) < kScoreStreams;
}

template <class Format>
TUTTI_INLINE int64_t PositionOf(const AttentionState<Format>& state, int64_t entry) {
  return state.item->first_position + (state.item->entry_begin + entry) / state.job->group;
}

// R rows by P groups of slots: scores[r][16 p ...] += q[r] . k[slot], over the pairs of d
// [begin, end); from 0 on where begin is 0.
template <class Format, int R, int P>
[[gnu::noinline]] static void ScoreGroups(const typename Format::A* q, int64_t pair_step,
                                          int64_t begin, int64_t end, const uint8_t* const* key,
                                          const uint8_t* const* ahead, float* scores) {
  using S = typename Format::Simd;
  typename Format::F sum[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      sum[r][p] = begin == 0 ? S::Zero() : S::Load(scores + r * kScoreStride + 16 * p);
    }
  }
  const auto units = [&](int64_t pair, const uint8_t*(&unit)[P], bool fetch) {
    const int64_t offset = pair * Format::kUnitBytes;
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      unit[p] = key[p] + offset;
      if (fetch) __builtin_prefetch(ahead[p] + offset, 0, 2);
    }
  };
  uint32_t state = 0;
  Format::Chains::Begin(sum, &state);
  if constexpr (Format::kBlockPairs > 0) {
    Format::Blocks(sum, begin, end, units, q, Format::kPerPair, pair_step);
  } else {
    q += begin * pair_step;
    for (int64_t pair = begin; pair < end; ++pair, q += pair_step) {
      const uint8_t* unit[P];
      units(pair, unit, true);
      Format::Step(sum, unit, q, Format::kPerPair);
    }
  }
  Format::Chains::End(sum, state);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) S::Store(scores + r * kScoreStride + 16 * p, sum[r][p]);
  }
}

// Where units [unit, unit + P) of d lie for a pair of slots of the tile.
template <class Format, int P>
TUTTI_INLINE void ValueUnits(const SlotTile& tile, int64_t value_units, int64_t unit, int64_t pair,
                             const uint8_t* (&at)[P]) {
  const uint8_t* w = tile.value[pair / kGroupPairs] +
                     (pair % kGroupPairs * value_units + unit) * Format::kUnitBytes;
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) at[p] = w + p * Format::kUnitBytes;
}

// out[r][16 u ...] = out * shrink + sum over the first `pairs` pairs of slots, for R rows and P
// units of d.  REQUIRES: whole blocks of a format that has them
template <class Format, int R, int P>
[[gnu::noinline]] static void MixUnits(const SlotTile& tile, const typename Format::A* weights,
                                       int64_t pairs, int64_t value_units, int64_t unit,
                                       const float* shrink, bool first, float* out,
                                       int64_t out_stride) {
  using S = typename Format::Simd;
  constexpr int64_t kRowStep = kScoreStride / 2 * Format::kPerPair;
  typename Format::F sum[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      sum[r][p] = first ? S::Zero()
                        : S::Mul(S::Load(out + r * out_stride + 16 * p), S::Broadcast(shrink + r));
    }
  }
  uint32_t state = 0;
  Format::Chains::Begin(sum, &state);
  if constexpr (Format::kBlockPairs > 0) {
    const auto units = [&](int64_t pair, const uint8_t*(&at)[P], bool first) {
      ValueUnits<Format>(tile, value_units, unit, pair, at);
      const uint8_t* ahead = tile.next_key[pair / kGroupPairs] +
                             (unit * kGroupPairs + pair % kGroupPairs * P) * Format::kUnitBytes;
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        if (first && !TakesTurns<Format>(R)) {
          __builtin_prefetch(ahead + p * Format::kUnitBytes, 0, 2);
        }
      }
    };
    Format::Blocks(sum, 0, pairs, units, weights, kRowStep, Format::kPerPair);
  }
  for (int64_t pair = 0, g = 0; Format::kBlockPairs == 0 && pair < pairs; ++g) {
    const uint8_t* w = tile.value[g] + unit * Format::kUnitBytes;
    const uint8_t* ahead = tile.next_key[g] + unit * kGroupPairs * Format::kUnitBytes;
    const int64_t end = pairs < pair + kGroupPairs ? pairs : pair + kGroupPairs;
    for (; pair < end; ++pair, w += value_units * Format::kUnitBytes) {
      const uint8_t* at[P];
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        at[p] = w + p * Format::kUnitBytes;
        if constexpr (!TakesTurns<Format>(R)) {
          __builtin_prefetch(ahead + p * Format::kUnitBytes, 0, 2);
        }
      }
      ahead += P * Format::kUnitBytes;
      if constexpr (Format::kBlockPairs == 0) {
        Format::Step(sum, at, weights + pair * Format::kPerPair, kRowStep);
      }
    }
  }
  Format::Chains::End(sum, state);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) S::Store(out + r * out_stride + 16 * p, sum[r][p]);
  }
}

// The rest of one row: pairs [begin, valid / 2), then the even slot of an odd count. Slots that a
// block lacks are not multiplied: filled up with zeros it could differ in the sign of a zero alone,
// which WriteOutput takes away.
template <class Format, int P>
[[gnu::noinline]] static void MixRest(const SlotTile& tile, const typename Format::A* weights,
                                      int64_t begin, int64_t valid, int64_t value_units,
                                      int64_t unit, float* out) {
  using S = typename Format::Simd;
  typename Format::F sum[1][P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sum[0][p] = S::Load(out + 16 * p);
  uint32_t state = 0;
  Format::Chains::Begin(sum, &state);
  if constexpr (Format::kBlockPairs > 0) {
    const auto units = [&](int64_t pair, const uint8_t*(&at)[P], bool) {
      ValueUnits<Format>(tile, value_units, unit, pair, at);
    };
    for (int64_t pair = begin; 2 * pair < valid; pair += Format::kBlockPairs) {
      const int64_t end = pair + Format::kBlockPairs;
      const int64_t even_end = (valid + 1) / 2 < end ? (valid + 1) / 2 : end;
      const int64_t odd_end = valid / 2 < end ? valid / 2 : end;
      Format::Block(sum, pair, even_end, odd_end, units, weights, 0, Format::kPerPair);
    }
  } else {
    for (int64_t pair = begin; 2 * pair < valid; ++pair) {
      const uint8_t* at[P];
      ValueUnits<Format>(tile, value_units, unit, pair, at);
      if (2 * pair + 1 < valid) {
        Format::Step(sum, at, weights + pair * Format::kPerPair, 0);
      } else {
        Format::StepEven(sum, at, weights + pair * Format::kPerPair, 0);
      }
    }
  }
  Format::Chains::End(sum, state);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) S::Store(out + 16 * p, sum[0][p]);
}

// Scores of R rows against the groups of a tile, whose values are fetched meanwhile: the mixing
// reads them in another order than they lie. `once`: nobody else reads this tile.
template <class Format, int R>
static void ScoreTile(const AttentionState<Format>& state, const SlotTile& tile,
                      const typename Format::A* q, int64_t pair_step, int64_t groups, bool once) {
  constexpr int P = Format::Simd::AttentionPanels(R);
  const int64_t pairs = state.job->head_dim / 2;
  const bool turns = once && TakesTurns<Format>(R);
  const auto score = [&](int64_t g, int64_t begin, int64_t end) {
    ScoreGroups<Format, R, P>(q, pair_step, begin, end, tile.key + g, tile.value + g,
                              state.scores + 16 * g);
  };
  int64_t g = 0;
  for (; turns && g + kScoreStreams <= groups; g += kScoreStreams) {
    for (int64_t pair = 0; pair < pairs; pair += kScoreTurnPairs<Format>) {
      const int64_t turn = pair + kScoreTurnPairs<Format>;
      const int64_t end = pairs < turn ? pairs : turn;
      for (int64_t i = g; i < g + kScoreStreams; i += P) score(i, pair, end);
    }
  }
  for (; g + P <= groups; g += P) score(g, 0, pairs);
  for (; g < groups; ++g) {
    ScoreGroups<Format, R, 1>(q, pair_step, 0, pairs, tile.key + g, tile.value + g,
                              state.scores + 16 * g);
  }
}

template <class Format, int R>
static void MixTile(const AttentionState<Format>& state, const SlotTile& tile, int64_t entry,
                    const float* shrink, const int64_t* valid) {
  constexpr int P = Format::Simd::AttentionPanels(R);
  constexpr int64_t kRowStep = kScoreStride / 2 * Format::kPerPair;
  const bool first = tile.begin == 0;
  const int64_t units = state.job->value_units;
  // Positions ascend, so the first row sees the fewest slots.
  constexpr int64_t kWhole = Format::kBlockPairs > 0 ? Format::kBlockPairs : 1;
  const int64_t shared = valid[0] / 2 / kWhole * kWhole;
  float* out = state.outputs + entry * state.out_cols;
  int64_t u = 0;
  for (; u + P <= units; u += P) {
    MixUnits<Format, R, P>(tile, state.weights, shared, units, u, shrink, first, out + 16 * u,
                           state.out_cols);
  }
  for (; u < units; ++u) {
    MixUnits<Format, R, 1>(tile, state.weights, shared, units, u, shrink, first, out + 16 * u,
                           state.out_cols);
  }
  for (int64_t r = 0; r < R; ++r) {
    if (valid[r] == 2 * shared) continue;
    const typename Format::A* weights = state.weights + r * kRowStep;
    float* row = out + r * state.out_cols;
    for (u = 0; u + 4 <= units; u += 4) {
      MixRest<Format, 4>(tile, weights, shared, valid[r], units, u, row + 16 * u);
    }
    for (; u < units; ++u) {
      MixRest<Format, 1>(tile, weights, shared, valid[r], units, u, row + 16 * u);
    }
  }
}

// Entries [entry, entry + R), whose queries interleave with `pair_step`, against one tile. `once`
// as in ScoreTile.
template <class Format, int R>
static void AttendRows(const AttentionState<Format>& state, const SlotTile& tile, int64_t entry,
                       const typename Format::A* q, int64_t pair_step, bool once) {
  int64_t valid[R];
  float shrink[R];
  for (int r = 0; r < R; ++r) valid[r] = ValidSlots(PositionOf(state, entry + r), tile.begin);
  ScoreTile<Format, R>(state, tile, q, pair_step, (valid[R - 1] + 15) / 16, once);
  SoftmaxRows<Format, R>(state, entry, valid, tile.begin == 0, shrink);
  MixTile<Format, R>(state, tile, entry, shrink, valid);
}

template <class Format>
static void AttendRowCount(int64_t rows, const AttentionState<Format>& state, const SlotTile& tile,
                           int64_t entry, const typename Format::A* q, int64_t pair_step,
                           bool once) {
  static_assert(kTileRows == 6);
  switch (rows) {
    case 1:
      return AttendRows<Format, 1>(state, tile, entry, q, pair_step, once);
    case 2:
      return AttendRows<Format, 2>(state, tile, entry, q, pair_step, once);
    case 3:
      return AttendRows<Format, 3>(state, tile, entry, q, pair_step, once);
    case 4:
      return AttendRows<Format, 4>(state, tile, entry, q, pair_step, once);
    case 5:
      return AttendRows<Format, 5>(state, tile, entry, q, pair_step, once);
    default:
      return AttendRows<Format, 6>(state, tile, entry, q, pair_step, once);
  }
}

template <class Format>
static AttentionState<Format> CarveState(const AttentionJob& job, const AttentionItem& item,
                                         float* scratch) {
  using A = typename Format::A;
  AttentionState<Format> state;
  state.job = &job;
  state.item = &item;
  state.out_cols = job.value_units * 16;
  state.scores = scratch;
  scratch += kTileRows * kScoreStride;
  if constexpr (Format::kPerPair == 1) {
    state.weights = reinterpret_cast<A*>(scratch);
  } else {
    state.weights = state.scores;
  }
  scratch += kTileRows * kScoreStride;
  state.largest = scratch;
  state.total = scratch + kAttentionEntries;
  scratch += 2 * kAttentionEntries;
  state.outputs = scratch;
  state.queries = reinterpret_cast<A*>(scratch + kAttentionEntries * state.out_cols);
  return state;
}

TUTTI_INLINE const float* QueryOf(const AttentionJob& job, const AttentionItem& item,
                                  int64_t entry) {
  const int64_t e = item.entry_begin + entry;
  const int64_t head = item.kv_head * job.group + e % job.group;
  return job.q + (item.first_row + e / job.group) * job.q_stride + head * job.head_dim;
}

template <class Format>
static void WriteOutput(const AttentionState<Format>& state, int64_t entry) {
  using S = typename Format::Simd;
  const AttentionJob& job = *state.job;
  const int64_t e = state.item->entry_begin + entry;
  const int64_t head = state.item->kv_head * job.group + e % job.group;
  float* to =
      job.out + (state.item->first_row + e / job.group) * job.out_stride + head * job.head_dim;
  const float* from = state.outputs + entry * state.out_cols;
  const typename S::F total = S::Broadcast(state.total + entry);
  for (int64_t i = 0; i < job.head_dim; i += 16) {
    typename S::F x = S::Div(S::Load(from + i), total);
    if constexpr (Format::kBlockPairs > 0) x = S::Add(x, S::Zero());  // -0 becomes +0
    StoreUpTo<S>(to + i, x, job.head_dim - i);
  }
}

template <class Format>
static void Attend(const AttentionJob& job, const AttentionItem& item, float* scratch,
                   uint64_t* slices) {
  const AttentionState<Format> state = CarveState<Format>(job, item, scratch);
  const int64_t entries = item.entry_end - item.entry_begin;
  const int64_t row_elements = job.head_dim / 2 * Format::kPerPair;
  for (int64_t e = 0; e < entries; e += kTileRows) {
    const float* rows[kTileRows];
    const int64_t count = entries - e < kTileRows ? entries - e : kTileRows;
    for (int64_t r = 0; r < count; ++r) rows[r] = QueryOf(job, item, e + r);
    Interleave(Format(), rows, count, job.head_dim, state.queries + e * row_elements);
  }
  const int64_t slots = PositionOf(state, entries - 1) + 1;
  for (int64_t begin = 0; begin < slots; begin += kAttentionTileSlots) {
    const SlotTile tile = LocateTile(job, item, begin, slots);
    for (int64_t e = 0; e < entries; e += kTileRows) {
      const int64_t count = entries - e < kTileRows ? entries - e : kTileRows;
      int64_t skip = 0;  // rows that end before this tile
      while (skip < count && PositionOf(state, e + skip) < begin) ++skip;
      if (skip == count) continue;
      const typename Format::A* q = state.queries + e * row_elements + skip * Format::kPerPair;
      const int64_t pair_step = count * Format::kPerPair;
      AttendRowCount<Format>(count - skip, state, tile, e + skip, q, pair_step,
                             entries <= kTileRows);
    }
    CountSlice(slices);
  }
  for (int64_t e = 0; e < entries; ++e) WriteOutput(state, e);
}

}  // namespace tutti::kernels::cpu
