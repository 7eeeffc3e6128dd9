// Products over codes in AMX's tiles: the bits of QuantisedGroups over BlockFormat. Codes become
// tiles in the first cache, or, for many rows, a panel of tiles in the second.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_matmul.h"
#include "kernels/cpu/quantised_kernels.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxPieceBlocks = kQuantisedPiecePairs / kAmxBlockPairs;

// What a call's tiles have in common.
struct AmxQuantised {
  const QuantisedJob* job;
  AmxProduct product;  // whose panel holds two units of all inputs
  uint8_t* piece;      // four units of a piece, as tiles: [block][4]
  float* part;         // sums of a strip: [16][64] or [32][32]
};

// Units [unit, unit + kUnits) of a strip's block as tiles, one behind the other.
template <class S, int kUnits>
TUTTI_INLINE void AmxExpand(const QuantisedJob& job, const QuantisedStrip& strip, int64_t block,
                            int64_t unit, uint8_t* tiles, int64_t ahead) {
  ExpandCodes<typename S::Codes, kUnits>(job.kind, strip, block * kAmxBlockPairs, kAmxBlockPairs,
                                         unit, {tiles, kAmxRowBytes, kAmxTileBytes}, ahead);
}

template <class S>
TUTTI_INLINE void AmxZeroSums(float* sums, int64_t floats) {
  for (int64_t i = 0; i < floats; i += 16) S::Store(sums + i, S::Zero());
}

// A leaf's sums, at AmxLeafSums, join the others'.
template <class S>
TUTTI_INLINE void AmxJoinLeaf(const AmxSums& sums, int64_t leaf) {
  if (leaf % 2 == 1 || sums.leaves == 1) AmxAddLeaf<S>(sums, leaf);
}

// The sums of one tile of rows by the four units of a strip, to part [rows][64].
template <class S>
static void AmxSingleStrip(const AmxQuantised& quantised, const QuantisedStrip& strip,
                           const uint8_t* in, int64_t rows, int64_t ahead) {
  constexpr int64_t kStep = kMatMulGroupColumns * static_cast<int64_t>(sizeof(float));
  float* part = quantised.part;
  const int64_t blocks = strip.pairs / kAmxBlockPairs;
  for (int64_t begin = 0; begin < blocks; begin += kAmxPieceBlocks) {
    const int64_t left = blocks - begin;
    const int64_t count = left < kAmxPieceBlocks ? left : kAmxPieceBlocks;
    for (int64_t b = 0; b < count; ++b) {
      AmxExpand<S, kMatMulGroupUnits>(*quantised.job, strip, begin + b, 0,
                                      quantised.piece + b * kMatMulGroupUnits * kAmxTileBytes,
                                      ahead);
    }
    if (begin == 0) {
      AmxZero<0>(), AmxZero<1>(), AmxZero<2>(), AmxZero<3>();
    } else {
      AmxLoad<0>(part, kStep), AmxLoad<1>(part + 16, kStep);
      AmxLoad<2>(part + 32, kStep), AmxLoad<3>(part + 48, kStep);
    }
    for (int64_t b = 0; b < count; ++b, in += rows * kAmxRowBytes) {
      AmxSingleBlock(in, quantised.piece + b * kMatMulGroupUnits * kAmxTileBytes, kAmxTileBytes,
                     kAmxRowBytes, nullptr);
    }
    AmxStore<0>(part, kStep), AmxStore<1>(part + 16, kStep);
    AmxStore<2>(part + 32, kStep), AmxStore<3>(part + 48, kStep);
  }
}

// Rows [row, row + rows) of group `group`, at most 16.
template <class S>
static void AmxQuantisedSingle(const AmxQuantised& quantised, int64_t group, int64_t row,
                               int64_t rows) {
  const QuantisedJob& job = *quantised.job;
  AmxSums sums =
      AmxSumsAt(quantised.product, row, rows, group * kMatMulGroupColumns, kMatMulGroupColumns);
  sums.leaves = job.leaves;
  const int64_t ahead = job.rows.tuning.ahead_bytes == kAheadOff ? 0 : kQuantisedAheadBytes;
  const uint8_t* in = AmxRowsAt(quantised.product, row);
  const uint8_t* codes = job.rows.weight + group * job.strip_at[job.rows.leaves];
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    float* const acc = AmxLeafSums(sums, leaf);
    const int64_t first = job.leaf_strip[leaf];
    if (first == job.leaf_strip[leaf + 1]) AmxZeroSums<S>(acc, rows * kMatMulGroupColumns);
    for (int64_t s = first; s < job.leaf_strip[leaf + 1]; ++s) {
      const QuantisedStrip strip = QuantisedStripAt(job, codes, s);
      AmxSingleStrip<S>(quantised, strip, in, rows, ahead);
      AddScaled<S, kMatMulGroupColumns>(quantised.part, strip.scales, job.scale_type, rows,
                                        s == first, acc);
      in += strip.pairs / kAmxBlockPairs * rows * kAmxRowBytes;
    }
    AmxJoinLeaf<S>(sums, leaf);
  }
}

// Two tiles of rows by units `unit` and `unit` + 1 of the group, which are in the panel.
template <class S>
static void AmxQuantisedPair(const AmxQuantised& quantised, const AmxPairAt& pair) {
  constexpr int64_t kStep = kAmxHalfColumns * static_cast<int64_t>(sizeof(float));
  const QuantisedJob& job = *quantised.job;
  const int64_t rows = kAmxRows + pair.second;
  AmxSums sums = AmxSumsAt(quantised.product, pair.row, rows,
                           pair.group * kMatMulGroupColumns + pair.unit * 16, kAmxHalfColumns);
  sums.leaves = job.leaves;
  if (sums.out_cols <= 0) return;
  const uint8_t* codes = job.rows.weight + pair.group * job.strip_at[job.rows.leaves];
  const uint8_t* first_rows = AmxRowsAt(quantised.product, pair.row);
  const uint8_t* second_rows = AmxRowsAt(quantised.product, pair.row + kAmxRows);
  const uint8_t* tiles = quantised.product.panel;
  const int64_t second_bytes = pair.second * kAmxRowBytes;
  float* const part = quantised.part;
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    float* const acc = AmxLeafSums(sums, leaf);
    const int64_t first = job.leaf_strip[leaf];
    if (first == job.leaf_strip[leaf + 1]) AmxZeroSums<S>(acc, rows * kAmxHalfColumns);
    for (int64_t s = first; s < job.leaf_strip[leaf + 1]; ++s) {
      const QuantisedStrip strip = QuantisedStripAt(job, codes, s);
      AmxZero<0>(), AmxZero<1>(), AmxZero<2>(), AmxZero<3>();
      for (int64_t b = 0; b < strip.pairs / kAmxBlockPairs; ++b) {
        AmxPairBlock(first_rows, second_rows, second_bytes, tiles, kAmxTileBytes, kAmxRowBytes,
                     2 * kAmxTileBytes);
        tiles += 2 * kAmxTileBytes;
        first_rows += kAmxTileBytes;
        second_rows += second_bytes;
      }
      float* const lower = part + kAmxRows * kAmxHalfColumns;
      AmxStore<0>(part, kStep), AmxStore<1>(part + 16, kStep);
      AmxStore<2>(lower, kStep), AmxStore<3>(lower + 16, kStep);
      const int64_t scale_bytes = job.scale_type == DType::kF32 ? 4 : 2;
      AddScaled<S, kAmxHalfColumns>(part, strip.scales + 16 * pair.unit * scale_bytes,
                                    job.scale_type, rows, s == first, acc);
    }
    AmxJoinLeaf<S>(sums, leaf);
  }
}

// Two units of a group as tiles: [strip][block][2].
template <class S>
static void AmxQuantisedPanel(const AmxQuantised& quantised, int64_t group, int64_t unit) {
  const QuantisedJob& job = *quantised.job;
  const uint8_t* codes = job.rows.weight + group * job.strip_at[job.rows.leaves];
  uint8_t* panel = quantised.product.panel;
  for (int64_t s = 0; s < job.rows.leaves; ++s) {
    const QuantisedStrip strip = QuantisedStripAt(job, codes, s);
    for (int64_t b = 0; b < strip.pairs / kAmxBlockPairs; ++b, panel += 2 * kAmxTileBytes) {
      AmxExpand<S, 2>(job, strip, b, unit, panel, 0);
    }
  }
}

// As AmxGroup.
template <class S>
static void AmxQuantisedGroup(const AmxQuantised& quantised, int64_t group, int64_t begin,
                              int64_t end, AmxShape* shape) {
  constexpr int64_t kPairRows = 2 * kAmxRows;
  const int64_t rest = (end - begin) % kPairRows;
  const int64_t pairs = (end - begin) / kPairRows + (rest > kAmxRows ? 1 : 0);
  for (int64_t unit = 0; pairs > 0 && unit < kMatMulGroupUnits; unit += 2) {
    AmxQuantisedPanel<S>(quantised, group, unit);
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t row = begin + pair * kPairRows;
      const int64_t second = end - row < kPairRows ? end - row - kAmxRows : kAmxRows;
      shape->Take(kAmxRows, second);
      AmxQuantisedPair<S>(quantised, {group, unit, row, second});
    }
  }
  if (rest > 0 && rest <= kAmxRows) {
    shape->Take(rest, 0);
    AmxQuantisedSingle<S>(quantised, group, end - rest, rest);
  }
}

template <class S>
static void AmxQuantisedGroups(const QuantisedJob& job, int64_t group_begin, int64_t group_end,
                               float* scratch, uint64_t* slices) {
  AmxQuantised quantised = {};
  quantised.job = &job;
  quantised.piece = reinterpret_cast<uint8_t*>(scratch);
  quantised.part = scratch + kQuantisedPanelFloats;
  quantised.product.job = &job.rows;
  quantised.product.blocks = AmxBlocksOfLeaves(job.rows, job.rows.leaves);
  quantised.product.open = quantised.part + 1024;
  quantised.product.panel =
      reinterpret_cast<uint8_t*>(quantised.product.open + AmxOpenFloats(job.leaves));
  const int64_t rows = job.rows.rows;
  const int64_t row_block = AmxRowBlock(rows, quantised.product.blocks);
  AmxShape shape;
  for (int64_t begin = 0; begin < rows; begin += row_block) {
    const int64_t end = rows < begin + row_block ? rows : begin + row_block;
    for (int64_t group = group_begin; group < group_end; ++group) {
      AmxQuantisedGroup<S>(quantised, group, begin, end, &shape);
      CountSlice(slices);
    }
  }
  AmxRelease();
}

}  // namespace
}  // namespace tutti::kernels::cpu
