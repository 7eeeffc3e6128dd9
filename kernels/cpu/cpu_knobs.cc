#include "kernels/cpu/cpu_knobs.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {
namespace {

// Positions in the list of knobs. Where to fetch comes first: it matters most where memory is
// waited for; the pieces are best measured with it set.
enum KnobIndex : size_t {
  kAheadOne,
  kAheadFew,
  kAheadTwoTiles,
  kAhead,
  kPiecesFew,
  kPieces,
  kBlock
};

constexpr int64_t kOneRowAhead[] = {kAheadOff, 256, 512, kStreamAheadBytes, 2048, 4096, 8192};
constexpr int64_t kFewRowsAhead[] = {kAheadPiece, kAheadOff, 512, 1024, 2048, 4096};
constexpr int64_t kTilesAhead[] = {kAheadPiece, kAheadOff};
constexpr int64_t kPiecePairsTried[] = {32, kPiecePairs, 128, 256};
constexpr int64_t kRowBlocks[] = {48, 96, kRowBlock};

// The first rows of the classes of products.
constexpr int64_t kTwoTileRows = kTileRows + 1;
constexpr int64_t kThreeTileRows = 2 * kTileRows + 1;
constexpr int64_t kManyRows = 8 * kTileRows + 1;

std::vector<Knob> MakeKnobs(bool streams_few_rows) {
  const std::span<const int64_t> few = streams_few_rows ? std::span<const int64_t>(kFewRowsAhead)
                                                        : std::span<const int64_t>(kTilesAhead);
  return {
      {"ahead-1", "bytes of weights fetched ahead, 1 row", kOneRowAhead, kStreamAheadBytes, 1},
      {"ahead-2", "the same, 2 to 6 rows; -1: the next piece", few, kAheadPiece, 4},
      {"ahead-7", "whether the next piece is fetched (-1), 7 to 12 rows", kTilesAhead, kAheadPiece,
       8},
      {"ahead-13", "the same, 13 rows and more", kTilesAhead, kAheadPiece, 16},
      {"pieces-7", "pairs of k in a piece of weights that stays in a cache, 7 to 48 rows",
       kPiecePairsTried, kPiecePairs, 16},
      {"pieces-49", "the same, 49 rows and more", kPiecePairsTried, kPiecePairs, kRowBlock},
      {"block", "rows that share a pass over the weights", kRowBlocks, kRowBlock, kRowBlock},
  };
}

}  // namespace

CpuKnobs::CpuKnobs(bool streams_few_rows) : knobs_(MakeKnobs(streams_few_rows)) {
  for (const Knob& knob : knobs_) values_.push_back(knob.usual);
}

void CpuKnobs::Set(size_t knob, int64_t value) {
  CHECK(knob < knobs_.size()) << "knob " << knob;
  const std::span<const int64_t> values = knobs_[knob].values;
  CHECK(std::find(values.begin(), values.end(), value) != values.end())
      << knobs_[knob].name << " = " << value;
  values_[knob] = value;
}

ProductTuning CpuKnobs::ForRows(int64_t rows) const {
  KnobIndex ahead = kAhead;
  if (rows == 1) {
    ahead = kAheadOne;
  } else if (rows < kTwoTileRows) {
    ahead = kAheadFew;
  } else if (rows < kThreeTileRows) {
    ahead = kAheadTwoTiles;
  }
  return {.row_block = values_[kBlock],
          .piece_pairs = values_[rows < kManyRows ? kPiecesFew : kPieces],
          .ahead_bytes = values_[ahead]};
}

}  // namespace tutti::kernels::cpu
