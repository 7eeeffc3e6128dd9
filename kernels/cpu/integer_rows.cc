#include "kernels/cpu/integer_rows.h"

#include <algorithm>

#include "kernels/cpu/tiles.h"
#include "kernels/limits.h"
#include "kernels/row_integers.h"

namespace tutti::kernels::cpu {
namespace {

constexpr int64_t kTileInputs = 64;  // bytes of a row of AMX's tiles
constexpr int64_t kRowsOfTile = 16;

}  // namespace

void IntegerRows::Begin(const QuantisedJob& job, std::span<const float> largest, bool as_tiles) {
  job_ = job;
  largest_ = largest;
  as_tiles_ = as_tiles;
  tile_rows_ = as_tiles ? kRowsOfTile : kTileRows;
  job_.row_scales = scales_.Floats(job.rows.rows);
  job_.row_sums = nullptr;
  if (!as_tiles) return;
  const int64_t sums = job.rows.leaves * job.rows.rows;
  job_.row_sums =
      static_cast<const int32_t*>(sums_.Bytes(sums * static_cast<int64_t>(sizeof(int32_t))));
}

int64_t IntegerRows::RoomFloats() const { return tile_rows_ * (inputs() + 1) / 2 + 1; }

void IntegerRows::PackTile(int64_t tile, float* room) {
  auto* const integers = reinterpret_cast<int16_t*>(room);
  return as_tiles_ ? PackBytes(tile, integers) : PackWords(tile, integers);
}

void IntegerRows::Round(int64_t first, int64_t rows, int16_t* integers) {
  auto* const scales = const_cast<float*>(job_.row_scales);
  for (int64_t r = first; r < first + rows; ++r, integers += inputs()) {
    const float* const row = job_.rows.in + r * job_.rows.in_stride;
    const float largest =
        largest_.empty() ? LargestOfRow(row, inputs()) : largest_[static_cast<size_t>(r)];
    scales[r] = RowScale(largest);
    RoundRow(row, inputs(), scales[r], integers);
  }
}

void IntegerRows::PackWords(int64_t tile, int16_t* integers) {
  const MatMulJob& job = job_.rows;
  const int64_t row_block = job.tuning.row_block, block_tiles = row_block / kTileRows;
  const RowBlock block = BlockAt(tile / block_tiles * row_block, job.rows, row_block);
  const RowTile t = TileOf(block, tile % block_tiles);
  const int64_t first = block.begin + t.begin;
  Round(first, t.rows, integers);
  uint32_t* out = static_cast<uint32_t*>(job.packed_in) + first * job.leaf_pair_begin[job.leaves];
  for (int64_t strip = 0; strip < job.leaves; ++strip) {
    const int64_t end = job.leaf_begin[strip + 1];
    int64_t k = job.leaf_begin[strip];
    for (int64_t pair = job.leaf_pair_begin[strip]; pair < job.leaf_pair_begin[strip + 1]; ++pair) {
      for (int64_t r = 0; r < t.rows; ++r) {
        const int16_t* const row = integers + r * inputs();
        const auto even = static_cast<uint16_t>(k < end ? row[k] : 0);
        const auto odd = static_cast<uint16_t>(k + 1 < end ? row[k + 1] : 0);
        *out++ = even | static_cast<uint32_t>(odd) << 16;
      }
      k += 2;
    }
  }
}

void IntegerRows::PackBytes(int64_t tile, int16_t* integers) {
  constexpr int64_t kOrder[] = {0, 2, 1, 3};
  const MatMulJob& job = job_.rows;
  const int64_t first = tile * kRowsOfTile;
  const int64_t rows = std::min(kRowsOfTile, job.rows - first);
  Round(first, rows, integers);
  auto* const sums = const_cast<int32_t*>(job_.row_sums);
  // What the tiles before have.
  int64_t inputs_of_row = 0;
  for (int64_t strip = 0; strip < job.leaves; ++strip) {
    const int64_t padded = 2 * (job.leaf_pair_begin[strip + 1] - job.leaf_pair_begin[strip]);
    inputs_of_row += (padded + kTileInputs - 1) / kTileInputs * kTileInputs;
  }
  auto* out = static_cast<int8_t*>(job.packed_in) + first * inputs_of_row;
  for (int64_t strip = 0; strip < job.leaves; ++strip) {
    const int64_t begin = job.leaf_begin[strip], end = job.leaf_begin[strip + 1];
    const int64_t padded = 2 * (job.leaf_pair_begin[strip + 1] - job.leaf_pair_begin[strip]);
    int32_t* const sum = sums + strip * job.rows + first;
    std::fill(sum, sum + rows, 0);
    for (int64_t k = begin; k < begin + padded; k += kTileInputs) {
      for (int64_t r = 0; r < rows; ++r) {
        const int16_t* const row = integers + r * inputs();
        for (int64_t i = 0; i < kTileInputs; ++i) {
          const int64_t at = k + i / 4 * 4 + kOrder[i % 4];
          const auto value = static_cast<int8_t>(at < end ? row[at] : 0);
          sum[r] += value;
          *out++ = value;
        }
      }
    }
  }
}

}  // namespace tutti::kernels::cpu
