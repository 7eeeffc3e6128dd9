// Attention in AMX's tiles: the bits of BlockFormat's attention, over the same cache. Keys of 16
// slots lie as tiles of weights already; values of 32 slots are gathered, once for all rows of an
// item, as a block of the cache may hold 16.
//
// Rows of a tile see different numbers of slots. A slot that a row does not see has the weight +0,
// and its value is read all the same: a number adds a zero to a sum, whose sign is not told
// (WriteOutput). Where it is no number, the rows are mixed one by one as BlockFormat does.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/amx_matmul.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_kernels.h"

namespace tutti::kernels::cpu {
namespace {

// The operands of attention's steps around the tiles: weights rounded to bf16, two to a word.
template <class S>
struct AmxFormat {
  using Simd = S;
  using A = uint32_t;
  using F = typename S::F;
  static constexpr int kPerPair = 1;
  static constexpr bool kRounds = true;
  static constexpr int kUnitBytes = 64;
  static constexpr int64_t kBlockPairs = kAmxBlockPairs;
};

inline constexpr int64_t kAmxSlots = 2 * kAmxBlockPairs;  // of a block
inline constexpr int64_t kAmxTileBlocks = kAttentionTileSlots / kAmxSlots;
inline constexpr int64_t kAmxWeightStride = kScoreStride * sizeof(uint16_t);
static_assert(kAttentionTileSlots % kAmxSlots == 0);

template <class S>
struct AmxAttention {
  AttentionState<AmxFormat<S>> state;  // scores and weights of 32 rows
  int64_t entries;
  int64_t key_blocks;  // of 32 d
  uint8_t* values;     // [kAmxTileBlocks][value_units] tiles
  uint8_t* key;        // a tile: the last d of 16 keys, filled up with zeros
  AmxShape shape;
};

// Rows of the tile that begins at `entry`.
template <class S>
TUTTI_INLINE int64_t AmxRowsOf(const AmxAttention<S>& attention, int64_t entry) {
  const int64_t left = attention.entries - entry;
  return left < 0 ? 0 : left < kAmxRows ? left : kAmxRows;
}

template <class S>
TUTTI_INLINE const uint8_t* AmxQueries(const AmxAttention<S>& attention, int64_t entry) {
  return reinterpret_cast<const uint8_t*>(attention.state.queries) +
         entry * attention.key_blocks * kAmxRowBytes;
}

// Where block `block` of a group of keys lies as a tile.
template <class S>
TUTTI_INLINE const uint8_t* AmxKeys(const AmxAttention<S>& attention, const uint8_t* group,
                                    int64_t block) {
  const int64_t pairs = attention.state.job->head_dim / 2 - block * kAmxBlockPairs;
  const uint8_t* keys = group + block * kAmxTileBytes;
  if (pairs >= kAmxBlockPairs) return keys;
  std::memset(attention.key, 0, static_cast<size_t>(kAmxTileBytes));
  std::memcpy(attention.key, keys, static_cast<size_t>(pairs * kAmxRowBytes));
  return attention.key;
}

// Scores of the rows from `entry` on against the groups of a tile of slots.
template <class S>
static void AmxScorePair(const AmxAttention<S>& attention, const SlotTile& tile, int64_t entry,
                         int64_t second, int64_t groups) {
  constexpr int64_t kStride = kScoreStride * sizeof(float);
  const uint8_t* queries = AmxQueries(attention, entry);
  const uint8_t* queries_second = AmxQueries(attention, entry + kAmxRows);
  for (int64_t g = 0; g < groups; g += 2) {
    const bool two = g + 1 < groups;
    AmxZero<0>();
    AmxZero<1>();
    AmxZero<2>();
    AmxZero<3>();
    for (int64_t block = 0; block < attention.key_blocks; ++block) {
      AmxLoad<6>(queries + block * kAmxTileBytes, kAmxRowBytes);
      AmxLoad<4>(AmxKeys(attention, tile.key[g], block), kAmxRowBytes);
      AmxMultiply<0, 6, 4>();
      AmxLoad<7>(queries_second + block * second * kAmxRowBytes, kAmxRowBytes);
      AmxMultiply<2, 7, 4>();
      if (!two) continue;
      AmxLoad<5>(AmxKeys(attention, tile.key[g + 1], block), kAmxRowBytes);
      AmxMultiply<1, 6, 5>();
      AmxMultiply<3, 7, 5>();
    }
    float* scores = attention.state.scores + 16 * g;
    AmxStore<0>(scores, kStride);
    AmxStore<2>(scores + kAmxRows * kScoreStride, kStride);
    if (!two) continue;
    AmxStore<1>(scores + 16, kStride);
    AmxStore<3>(scores + kAmxRows * kScoreStride + 16, kStride);
  }
}

template <class S>
static void AmxScoreSingle(const AmxAttention<S>& attention, const SlotTile& tile, int64_t entry,
                           int64_t rows, int64_t groups) {
  constexpr int64_t kStride = kScoreStride * sizeof(float);
  const uint8_t* queries = AmxQueries(attention, entry);
  for (int64_t g = 0; g < groups; g += 2) {
    const bool two = g + 1 < groups;
    AmxZero<0>();
    AmxZero<1>();
    for (int64_t block = 0; block < attention.key_blocks; ++block) {
      AmxLoad<4>(queries + block * rows * kAmxRowBytes, kAmxRowBytes);
      AmxLoad<5>(AmxKeys(attention, tile.key[g], block), kAmxRowBytes);
      AmxMultiply<0, 4, 5>();
      if (!two) continue;
      AmxLoad<6>(AmxKeys(attention, tile.key[g + 1], block), kAmxRowBytes);
      AmxMultiply<1, 4, 6>();
    }
    float* scores = attention.state.scores + 16 * g;
    AmxStore<0>(scores, kStride);
    if (two) AmxStore<1>(scores + 16, kStride);
  }
}

// Scores of `rows` rows, whose first is row `row` of the scores and `entry` of the item, become
// weights, +0 where a row sees no slot, up to `slots`. shrink[r] is 1 for a row that ends before
// the tile; valid[r] the slots that it sees.
template <class S>
static void AmxSoftmax(const AmxAttention<S>& attention, int64_t row, int64_t entry, int64_t rows,
                       int64_t tile_begin, int64_t slots, int64_t* valid, float* shrink) {
  const auto& state = attention.state;
  const bool first = tile_begin == 0;
  alignas(64) float before[kAmxRows] = {};
  alignas(64) float now[kAmxRows] = {};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t seen = ValidSlots(PositionOf(state, entry + r), tile_begin);
    valid[r] = seen > 0 ? seen : 0;
    if (valid[r] == 0) continue;
    before[r] = first ? -__builtin_inff() : state.largest[entry + r];
    now[r] = ScaleRow(state, row + r, valid[r], before[r]);
  }
  if (first) {
    for (int64_t r = 0; r < rows; ++r) shrink[r] = 0;
  } else {
    alignas(64) float shrinks[kAmxRows];
    S::Store(shrinks, Exp<S>(S::Sub(S::Load(before), S::Load(now))));
    for (int64_t r = 0; r < rows; ++r) shrink[r] = valid[r] > 0 ? shrinks[r] : 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    auto* weights = reinterpret_cast<uint8_t*>(state.weights) + (row + r) * kAmxWeightStride;
    int64_t written = 0;
    if (valid[r] > 0) {
      const float carried = first ? 0.0f : state.total[entry + r] * shrink[r];
      state.total[entry + r] = carried + WeighRow(state, row + r, valid[r], now[r]);
      state.largest[entry + r] = now[r];
      written = (valid[r] + 15) / 16 * 16;
    }
    if (written < slots) {
      std::memset(weights + written * 2, 0, static_cast<size_t>(slots - written) * 2);
    }
  }
}

// Gathers the values of the tile's first `slots` slots as tiles; behind them zeros.
template <class S>
static void AmxGatherValues(const AmxAttention<S>& attention, const SlotTile& tile, int64_t slots) {
  const int64_t units = attention.state.job->value_units;
  for (int64_t pair = 0; pair < (slots + kAmxSlots - 1) / kAmxSlots * kAmxBlockPairs; ++pair) {
    uint8_t* to = attention.values + pair / kAmxBlockPairs * units * kAmxTileBytes +
                  pair % kAmxBlockPairs * kAmxRowBytes;
    const int64_t seen = slots - 2 * pair;
    // Behind the last slot there may be no group.
    const uint8_t* from =
        tile.value[seen > 0 ? pair / kGroupPairs : 0] + pair % kGroupPairs * units * kAmxRowBytes;
    for (int64_t unit = 0; unit < units; ++unit, to += kAmxTileBytes, from += kAmxRowBytes) {
      S::CopyPair(to, from, seen < 0 ? 0 : seen);
    }
  }
}

// Whether a value of the slots [begin, end) of the gathered ones is no number, or infinite.
template <class S>
static bool AmxNotFinite(const AmxAttention<S>& attention, int64_t begin, int64_t end) {
  const int64_t units = attention.state.job->value_units;
  for (int64_t pair = begin / 2; 2 * pair < end; ++pair) {
    const uint8_t* row = attention.values + pair / kAmxBlockPairs * units * kAmxTileBytes +
                         pair % kAmxBlockPairs * kAmxRowBytes;
    for (int64_t unit = 0; unit < units; ++unit) {
      if (S::AnyNotFiniteBf16(row + unit * kAmxTileBytes)) return true;
    }
  }
  return false;
}

// out = out * shrink + weights * values, for the rows from `entry` on by units `unit` and, with
// `two`, `unit` + 1.
template <class S, bool kPair>
static void AmxMixUnits(const AmxAttention<S>& attention, int64_t entry, int64_t unit, bool two,
                        int64_t blocks, bool first) {
  const auto& state = attention.state;
  const int64_t stride = state.out_cols * static_cast<int64_t>(sizeof(float));
  float* out = state.outputs + entry * state.out_cols + 16 * unit;
  float* out_second = out + kAmxRows * state.out_cols;
  const auto* weights = reinterpret_cast<const uint8_t*>(state.weights);
  if (first) {
    AmxZero<0>();
    AmxZero<1>();
    if (kPair) AmxZero<2>();
    if (kPair) AmxZero<3>();
  } else {
    AmxLoad<0>(out, stride);
    if (two) AmxLoad<1>(out + 16, stride);
    if (kPair) AmxLoad<2>(out_second, stride);
    if (kPair && two) AmxLoad<3>(out_second + 16, stride);
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const uint8_t* values =
        attention.values + (block * state.job->value_units + unit) * kAmxTileBytes;
    const uint8_t* seen = weights + block * kAmxRowBytes;
    if constexpr (kPair) {
      AmxLoad<6>(seen, kAmxWeightStride);
      AmxLoad<4>(values, kAmxRowBytes);
      AmxMultiply<0, 6, 4>();
      AmxLoad<7>(seen + kAmxRows * kAmxWeightStride, kAmxWeightStride);
      AmxMultiply<2, 7, 4>();
      if (!two) continue;
      AmxLoad<5>(values + kAmxTileBytes, kAmxRowBytes);
      AmxMultiply<1, 6, 5>();
      AmxMultiply<3, 7, 5>();
    } else {
      AmxLoad<4>(seen, kAmxWeightStride);
      AmxLoad<5>(values, kAmxRowBytes);
      AmxMultiply<0, 4, 5>();
      if (!two) continue;
      AmxLoad<6>(values + kAmxTileBytes, kAmxRowBytes);
      AmxMultiply<1, 4, 6>();
    }
  }
  AmxStore<0>(out, stride);
  if (two) AmxStore<1>(out + 16, stride);
  if (kPair) AmxStore<2>(out_second, stride);
  if (kPair && two) AmxStore<3>(out_second + 16, stride);
}

// Outputs of `rows` rows from `entry` on, times their shrink.
template <class S>
static void AmxShrink(const AmxAttention<S>& attention, int64_t entry, int64_t rows,
                      const float* shrink) {
  for (int64_t r = 0; r < rows; ++r) {
    if (shrink[r] == 1) continue;
    float* out = attention.state.outputs + (entry + r) * attention.state.out_cols;
    const auto factor = S::Set(shrink[r]);
    for (int64_t i = 0; i < attention.state.out_cols; i += 16) {
      S::Store(out + i, S::Mul(S::Load(out + i), factor));
    }
  }
}

// One row, as BlockFormat mixes it: no slot beyond its own is read.
template <class S>
static void AmxMixAlone(const AmxAttention<S>& attention, const SlotTile& tile, int64_t row,
                        int64_t entry, int64_t valid, float shrink) {
  const auto& from = attention.state;
  const auto* words = reinterpret_cast<const uint16_t*>(
      reinterpret_cast<const uint8_t*>(from.weights) + row * kAmxWeightStride);
  alignas(64) float weights[kScoreStride];
  for (int64_t i = 0; i < valid; i += 16) S::Store(weights + i, S::LoadBf16(words + i));
  AttentionState<BlockFormat<S>> state = {};
  state.job = from.job;
  state.item = from.item;
  state.out_cols = from.out_cols;
  state.outputs = from.outputs;
  state.weights = weights;
  MixTile<BlockFormat<S>, 1>(state, tile, entry, &shrink, &valid);
}

// The rows from `entry` on, two tiles of them at most, against a tile of slots. `wild`: behind the
// first slot that some row of the item does not see, a value is no number.
template <class S>
static void AmxAttendRows(AmxAttention<S>* attention, const SlotTile& tile, int64_t entry,
                          bool wild) {
  const auto& state = attention->state;
  const int64_t first = AmxRowsOf(*attention, entry);
  const int64_t second = AmxRowsOf(*attention, entry + kAmxRows);
  const int64_t slots =
      ValidSlots(PositionOf(state, entry + first + second - 1), tile.begin);  // of the last row
  if (slots <= 0) return;
  const int64_t groups = (slots + 15) / 16;
  const int64_t blocks = (slots + kAmxSlots - 1) / kAmxSlots;
  int64_t valid[2 * kAmxRows];
  float shrink[2 * kAmxRows];
  attention->shape.Take(first, second);
  if (second > 0) {
    AmxScorePair(*attention, tile, entry, second, groups);
  } else {
    AmxScoreSingle(*attention, tile, entry, first, groups);
  }
  const int64_t begin = tile.begin;
  AmxSoftmax(*attention, 0, entry, first, begin, blocks * kAmxSlots, valid, shrink);
  AmxSoftmax(*attention, kAmxRows, entry + kAmxRows, second, begin, blocks * kAmxSlots,
             valid + kAmxRows, shrink + kAmxRows);
  if (wild) {
    for (int64_t r = 0; r < first + second; ++r) {
      if (valid[r] > 0) AmxMixAlone(*attention, tile, r, entry + r, valid[r], shrink[r]);
    }
    return;
  }
  if (begin > 0) AmxShrink(*attention, entry, first + second, shrink);
  const int64_t units = state.job->value_units;
  for (int64_t unit = 0; unit < units; unit += 2) {
    const bool two = unit + 1 < units;
    if (second > 0) {
      AmxMixUnits<S, true>(*attention, entry, unit, two, blocks, begin == 0);
    } else {
      AmxMixUnits<S, false>(*attention, entry, unit, two, blocks, begin == 0);
    }
  }
}

// Queries as tiles of rows: [tile][block of 32 d][rows][32].
template <class S>
static void AmxPackQueries(const AmxAttention<S>& attention) {
  const AttentionJob& job = *attention.state.job;
  auto* out = reinterpret_cast<uint8_t*>(attention.state.queries);
  for (int64_t entry = 0; entry < attention.entries; entry += kAmxRows) {
    const int64_t rows = AmxRowsOf(attention, entry);
    for (int64_t d = 0; d < job.head_dim; d += 32) {
      for (int64_t r = 0; r < rows; ++r, out += kAmxRowBytes) {
        AmxPackPart<S>(QueryOf(job, *attention.state.item, entry + r) + d, job.head_dim - d, out);
      }
    }
  }
}

template <class S>
static void AmxCarve(const AttentionJob& job, const AttentionItem& item, float* scratch,
                     AmxAttention<S>* attention) {
  auto& state = attention->state;
  state.job = &job;
  state.item = &item;
  state.out_cols = job.value_units * 16;
  attention->entries = item.entry_end - item.entry_begin;
  attention->key_blocks = (job.head_dim + 31) / 32;
  const auto carve = [&](int64_t floats) {
    float* at = scratch;
    scratch += floats;
    return at;
  };
  attention->values =
      reinterpret_cast<uint8_t*>(carve(kAmxTileBlocks * job.value_units * kAmxTileBytes / 4));
  attention->key = reinterpret_cast<uint8_t*>(carve(kAmxTileBytes / 4));
  state.queries = reinterpret_cast<uint32_t*>(
      carve(kAmxAttentionEntries * attention->key_blocks * kAmxRowBytes / 4));
  state.scores = carve(2 * kAmxRows * kScoreStride);
  state.weights = reinterpret_cast<uint32_t*>(carve(2 * kAmxRows * kScoreStride / 2));
  state.outputs = carve(kAmxAttentionEntries * state.out_cols);
  state.largest = carve(kAmxAttentionEntries);
  state.total = carve(kAmxAttentionEntries);
}

template <class S>
static void AmxAttend(const AttentionJob& job, const AttentionItem& item, float* scratch,
                      uint64_t* slices) {
  AmxAttention<S> attention = {};
  AmxCarve(job, item, scratch, &attention);
  AmxPackQueries(attention);
  const auto& state = attention.state;
  const int64_t slots = PositionOf(state, attention.entries - 1) + 1;
  for (int64_t begin = 0; begin < slots; begin += kAttentionTileSlots) {
    const SlotTile tile = LocateTile(job, item, begin, slots);
    const int64_t seen = ValidSlots(slots - 1, begin);
    AmxGatherValues(attention, tile, seen);
    // The first slot that some row does not see.
    const int64_t fewest = ValidSlots(PositionOf(state, 0), begin);
    const bool wild = fewest < seen && AmxNotFinite(attention, fewest < 0 ? 0 : fewest, seen);
    for (int64_t entry = 0; entry < attention.entries; entry += 2 * kAmxRows) {
      AmxAttendRows(&attention, tile, entry, wild);
    }
    CountSlice(slices);
  }
  AmxRelease();
  for (int64_t entry = 0; entry < attention.entries; ++entry) WriteOutput(state, entry);
}

}  // namespace
}  // namespace tutti::kernels::cpu
