#include "kernels/cpu/cpu_knobs.h"

#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "kernels/cpu/both_ways.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {
namespace {

// Positions in the list of knobs: the ways to multiply, where there are two, then the others. What
// is fetched comes before the pieces, which are best measured with it set.
enum WayIndex : size_t { kWayOne, kWayFew, kWay, kWays };
enum KnobIndex : size_t {
  kStreamsOne,
  kAheadOne,
  kAheadFew,
  kAheadTwoTiles,
  kAhead,
  kPiecesFew,
  kPieces,
  kBlock,
  kStreamsFew
};

constexpr int64_t kByF32[] = {0, 1};
constexpr int64_t kStreamsTried[] = {1, 2, 4, kStreamsMax};
constexpr int64_t kOneRowAhead[] = {kAheadOff, kStreamAheadBytes, 512, 1024, 2048, 4096, 8192};
constexpr int64_t kFewRowsAhead[] = {kAheadPiece, kAheadOff, 512, 1024, 2048, 4096};
constexpr int64_t kTilesAhead[] = {kAheadPiece, kAheadOff};
constexpr int64_t kPiecePairsTried[] = {32, kPiecePairs, 128, 256};
constexpr int64_t kRowBlocks[] = {48, 96, kRowBlock};
constexpr int64_t kUsualStreams[] = {kStreams}, kUsualStreamsFew[] = {1};
constexpr int64_t kUsualPieces[] = {kPiecePairs}, kUsualBlock[] = {kRowBlock};
static_assert(kStreamsMax * kTileRows <= kRowBlocks[0],
              "the sums of a turn fit where those of the least block do");

// The first rows of the classes of products.
constexpr int64_t kTwoTileRows = kTileRows + 1;
constexpr int64_t kThreeTileRows = 2 * kTileRows + 1;
constexpr int64_t kManyRows = 8 * kTileRows + 1;

std::vector<Knob> MakeKnobs(const KernelTable& kernels, bool both_ways) {
  const std::span<const int64_t> few = kernels.streams_few_rows
                                           ? std::span<const int64_t>(kFewRowsAhead)
                                           : std::span<const int64_t>(kTilesAhead);
  std::vector<Knob> knobs;
  if (both_ways) {
    knobs = {
        {"f32-1", "1: bf16 is multiplied by f32 instructions; 0: by the dot, 1 row", kByF32, 0, 1},
        {"f32-2", "the same, 2 to 6 rows", kByF32, 0, 4},
        {"f32-7", "the same, 7 rows and more, and attention", kByF32, 0, 8 * kTileRows},
    };
  }
  // Tiles read one group at a time, keep no sums in memory, and make their own blocks of rows. What
  // such a set multiplies without them (f16, f32) takes the usual values.
  const bool tiles = kernels.tile_burst != nullptr;
  const auto tried = [tiles](std::span<const int64_t> values, std::span<const int64_t> usual) {
    return tiles ? usual : values;
  };
  const int64_t streams_few = kernels.streams_few_rows ? 1 : kStreams;
  const std::initializer_list<Knob> others = {
      {"streams-1", "groups of weights read at once, 1 row", tried(kStreamsTried, kUsualStreams),
       kStreams, 1},
      {"ahead-1", "bytes of weights fetched ahead, 1 row", kOneRowAhead,
       tiles ? kTileAheadBytes : kStreamAheadBytes, 1},
      {"ahead-2", "the same, 2 to 6 rows; -1: the next piece", few, kAheadPiece, 4},
      {"ahead-7", "whether the next piece is fetched (-1), 7 to 12 rows", kTilesAhead, kAheadPiece,
       8},
      {"ahead-13", "the same, 13 rows and more", kTilesAhead, kAheadPiece, 16},
      {"pieces-7", "pairs of k in a piece of weights that stays in a cache, 7 to 48 rows",
       tried(kPiecePairsTried, kUsualPieces), kPiecePairs, 16},
      {"pieces-49", "the same, 49 rows and more", tried(kPiecePairsTried, kUsualPieces),
       kPiecePairs, kRowBlock},
      {"block", "rows that share a pass over the weights", tried(kRowBlocks, kUsualBlock),
       kRowBlock, kRowBlock},
      {"streams-2", "as streams-1, 2 to 6 rows; AVX2: 4", tried(kStreamsTried, kUsualStreamsFew),
       streams_few, 4},
  };
  knobs.insert(knobs.end(), others.begin(), others.end());
  return knobs;
}

}  // namespace

CpuKnobs::CpuKnobs(const KernelTable& kernels)
    : CpuKnobs(kernels, kernels.multiplies_both_ways && BothWaysAgree(kernels)) {}

CpuKnobs::CpuKnobs(const KernelTable& kernels, bool both_ways)
    : knobs_(MakeKnobs(kernels, both_ways)),
      ways_(both_ways ? size_t{kWays} : 0),
      ways_differ_(kernels.multiplies_both_ways && !both_ways) {
  for (const Knob& knob : knobs_) values_.push_back(knob.usual);
}

CpuKnobs::CpuKnobs(const KernelTable& kernels, const CpuKnobs& other) : CpuKnobs(kernels) {
  for (size_t i = 0; i < knobs_.size(); ++i) {
    for (size_t k = 0; k < other.knobs_.size(); ++k) {
      const std::span<const int64_t> takes = knobs_[i].values;
      const int64_t value = other.values_[k];
      if (knobs_[i].name != other.knobs_[k].name) continue;
      if (std::find(takes.begin(), takes.end(), value) != takes.end()) values_[i] = value;
    }
  }
}

void CpuKnobs::Set(size_t knob, int64_t value) {
  CHECK(knob < knobs_.size()) << "knob " << knob;
  const std::span<const int64_t> values = knobs_[knob].values;
  CHECK(std::find(values.begin(), values.end(), value) != values.end())
      << knobs_[knob].name << " = " << value;
  values_[knob] = value;
}

bool CpuKnobs::AttentionByF32() const { return ways_ > 0 && values_[kWay] != 0; }

ProductTuning CpuKnobs::ForRows(int64_t rows) const {
  KnobIndex ahead = kAhead;
  WayIndex way = kWay;
  int64_t streams = 1;
  if (rows == 1) {
    ahead = kAheadOne;
    way = kWayOne;
    streams = values_[ways_ + kStreamsOne];
  } else if (rows < kTwoTileRows) {
    ahead = kAheadFew;
    way = kWayFew;
    streams = values_[ways_ + kStreamsFew];
  } else if (rows < kThreeTileRows) {
    ahead = kAheadTwoTiles;
  }
  return {.row_block = values_[ways_ + kBlock],
          .piece_pairs = values_[ways_ + (rows < kManyRows ? kPiecesFew : kPieces)],
          .ahead_bytes = values_[ways_ + ahead],
          .streams = streams,
          .by_f32 = ways_ > 0 && values_[way] != 0};
}

}  // namespace tutti::kernels::cpu
