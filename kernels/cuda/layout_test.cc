// Where numbers lie: every index is used once, padding is padding, and leaves add up in their tree.
#include "kernels/cuda/layout.h"

#include <bit>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/leaf_map.h"
#include "kernels/cuda/ordered_bits.h"
#include "kernels/cuda/product_hopper.h"
#include "kernels/cuda/product_ring.h"

namespace tutti::kernels::cuda {
namespace {

LeafMap MapOf(std::vector<int64_t> begin) { return *MakeLeafMap(begin); }

const std::vector<std::vector<int64_t>> kLeaves = {
    {0, 0},
    {0, 1},
    {0, 31, 33},
    {0, 0, 32, 64, 100},
    {0, 130},
    {0, 512, 1024},
    {0, 5, 5, 40, 41, 41, 96, 97, 200},
};

TEST(LayoutTest, PackedKGoesThereAndBack) {
  for (const auto& begin : kLeaves) {
    const LeafMap map = MapOf(begin);
    std::set<int32_t> used;
    for (int32_t k = 0; k < begin.back(); ++k) {
      const int32_t packed = PackedK(map, k);
      EXPECT_TRUE(used.insert(packed).second);
      EXPECT_EQ(SourceK(map, packed), k);
    }
    int32_t padding = 0;
    for (int32_t packed = 0; packed < Chunks(map) * kChunkK; ++packed) {
      if (used.contains(packed)) continue;
      EXPECT_EQ(SourceK(map, packed), -1);
      ++padding;
    }
    EXPECT_EQ(padding + begin.back(), int64_t{Chunks(map)} * kChunkK);
    // A leaf starts a chunk, so that no instruction works for two.
    for (int leaf = 0; leaf < map.leaves; ++leaf) {
      if (begin[leaf] < begin[leaf + 1]) {
        EXPECT_EQ(PackedK(map, static_cast<int32_t>(begin[leaf])), map.chunk[leaf] * kChunkK);
      }
    }
  }
}

// Every number once, nothing beyond whole blocks of rows.
TEST(LayoutTest, WideActivationsFillTheirPieces) {
  constexpr int kChunks = 3;
  std::set<int64_t> used;
  for (int64_t r = 0; r < 2 * kWideRows; ++r) {
    for (int32_t k = 0; k < kChunks * kChunkK; ++k) {
      EXPECT_TRUE(used.insert(WideActivationIndex(r, k, kChunks)).second);
    }
  }
  EXPECT_EQ(*used.begin(), 0);
  EXPECT_EQ(*used.rbegin() + 1, static_cast<int64_t>(used.size()));
}

// The two instructions of a chunk take the same k from both operands: A's as its lanes read it
// (PTX, "Register Fragments for wgmma.mma_async.m64nNk16", as of mma.m16n8k16), B's as core
// matrices of 8 rows by 16 bytes, two of them along k.
TEST(LayoutTest, WideInstructionsMultiplyTheSameK) {
  constexpr int kChunks = 2;
  for (int32_t chunk = 0; chunk < kChunks; ++chunk) {
    for (int instruction = 0; instruction < 2; ++instruction) {
      for (int slot = 0; slot < 16; ++slot) {
        // Lane t of four has slots 2 t and 2 t + 1 of either half: words 0 and 1 of its 16 bytes,
        // or words 2 and 3.
        const int t = slot % 8 / 2, word = 2 * instruction + slot / 8;
        const int32_t k = chunk * kChunkK + 8 * t + 2 * word + slot % 2;
        ASSERT_EQ(WeightIndex(0, k, kChunks) % kPieceValues, 8 * t + 2 * word + slot % 2);
        for (int64_t row : {0, 1, 7, 8, 63, 64, 200}) {
          const int64_t block = (row / 64 * kChunks + chunk) * 64 * 32;
          const int64_t core = row % 64 / 8 * 4 + 2 * instruction + slot / 8;
          EXPECT_EQ(WideActivationIndex(row, k, kChunks),
                    block + core * 64 + row % 8 * 8 + slot % 8);
        }
      }
    }
  }
}

// All rows of a chunk lie together, each in its place of a piece of the wide ones.
TEST(LayoutTest, ActivationsTogetherFillTheirPieces) {
  constexpr int kChunks = 3, kPieces = 5;
  std::set<int64_t> used;
  for (int64_t row = 0; row < kPieces * kPieceRows; ++row) {
    for (int32_t k = 0; k < kChunks * kChunkK; ++k) {
      const int64_t at = TogetherActivationIndex(row, k, kPieces);
      EXPECT_TRUE(used.insert(at).second);
      EXPECT_EQ(at / kPieceValues, k / kChunkK * kPieces + row / kPieceRows);
      EXPECT_EQ(at % kPieceValues, WideActivationIndex(row, k, kChunks) % kPieceValues);
      EXPECT_EQ(PackedRowIndex(row, k, kChunks, kPieces), at);
      EXPECT_EQ(PackedRowIndex(row, k, kChunks, 0), ActivationIndex(row, k, kChunks));
      for (const int32_t pieces : {0, kPieces}) {
        EXPECT_EQ(PackedRowIndex(row, k, kChunks, pieces),
                  PackedRowIndex(row, 0, kChunks, pieces) + PackedRowOffset(k, pieces));
      }
    }
  }
  EXPECT_EQ(*used.rbegin(), kPieces * kChunks * kPieceValues - 1);
}

TEST(LayoutTest, RingProductsAreSharedOutEvenly) {
  const auto share = [](int64_t rows, int32_t outs, int leaves) {
    ProductArgs args = {
        .rows = static_cast<int32_t>(rows), .out_features = outs, .out_tiles = outs / kTileOut};
    args.leaves.leaves = leaves;
    return ShareOut(args, 132, 12);
  };
  // An 8B model on 132 multiprocessors.
  EXPECT_EQ(share(1, 6144, 1).tiles, 3);
  EXPECT_EQ(share(64, 6144, 1).blocks, 128);
  EXPECT_EQ(share(64, 4096, 8).tiles, 8);  // of a leaf
  EXPECT_EQ(share(64, 4096, 8).items, 256);
  EXPECT_EQ(share(1, 24576, 1).tiles, 12);
  EXPECT_EQ(share(64, 151936, 1).items, 792);
  EXPECT_EQ(share(8, 16, 1).blocks, 1);
}

TEST(LayoutTest, EveryWideTileIsBegunOnce) {
  for (const auto& [rows, outs, group] :
       {std::tuple{1, 1, 8}, {3, 5, 8}, {8, 5, 8}, {9, 1, 8}, {20, 7, 8}, {5, 3, 1}}) {
    std::set<std::pair<int32_t, int32_t>> begun;
    for (int32_t i = 0; i < rows * outs; ++i) {
      const WideTile tile = WideTileAt(i, rows, outs, group);
      EXPECT_TRUE(tile.row_block >= 0 && tile.row_block < rows);
      EXPECT_TRUE(tile.out_block >= 0 && tile.out_block < outs);
      EXPECT_TRUE(begun.insert({tile.row_block, tile.out_block}).second);
    }
  }
  // Rows of a group first, then features, then the next group.
  EXPECT_EQ(WideTileAt(7, 20, 7, 8).row_block, 7);
  EXPECT_EQ(WideTileAt(8, 20, 7, 8).out_block, 1);
  EXPECT_EQ(WideTileAt(8 * 7, 20, 7, 8).row_block, 8);
}

TEST(LayoutTest, WeightsAndActivationsFillTheirPieces) {
  constexpr int kChunks = 3;
  std::set<int64_t> weights, rows;
  for (int64_t r = 0; r < 48; ++r) {
    for (int32_t k = 0; k < kChunks * kChunkK; ++k) {
      EXPECT_TRUE(weights.insert(WeightIndex(r, k, kChunks)).second);
      EXPECT_TRUE(rows.insert(ActivationIndex(r, k, kChunks)).second);
    }
  }
  EXPECT_EQ(*weights.rbegin(), 48 * kChunks * kChunkK - 1);
  EXPECT_EQ(*rows.rbegin(), 48 * kChunks * kChunkK - 1);
  // The 16 bytes at lane * 16 of a piece: row g, k 8 t to 8 t + 7.
  for (int lane = 0; lane < kWarp; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(WeightIndex(g + 8, 8 * t + i, kChunks), kPieceValues + lane * 8 + i);
      EXPECT_EQ(ActivationIndex(g, 8 * t + i, kChunks), lane * 8 + i);
    }
  }
}

// As docs/decisions/0002 writes it.
float Tree(const std::vector<float>& sums, size_t first, size_t count) {
  if (count == 1) return sums[first];
  return Tree(sums, first, count / 2) + Tree(sums, first + count / 2, count / 2);
}

TEST(LayoutTest, LeavesAddUpInTheTree) {
  for (int count : {1, 2, 4, 8}) {
    std::vector<float> sums;
    for (int i = 0; i < count; ++i) sums.push_back(std::pow(1.7f, static_cast<float>(i * i % 11)));
    float total[1] = {}, pending[kLeafLevels][1] = {};
    for (int i = 0; i < count; ++i) {
      total[0] = sums[static_cast<size_t>(i)];
      AddLeaf<1, kLeafLevels>(i, total, pending);
    }
    EXPECT_EQ(total[0], Tree(sums, 0, sums.size())) << count;
  }
}

TEST(LayoutTest, TheCacheHoldsEveryValueOnce) {
  for (const bool plain : {false, true}) {
    for (int64_t head_dim : {2, 64, 80, 96, 128, 256}) {
      const KvLayout layout = {.block_size = 48,
                               .kv_heads = 3,
                               .dim = GpuPaddedHeadDim(head_dim, plain),
                               .plain = plain};
      std::set<int64_t> used;
      for (int64_t block : {0, 1}) {
        for (int32_t slot = 0; slot < layout.block_size; ++slot) {
          for (int32_t head = 0; head < layout.kv_heads; ++head) {
            const int64_t key = KvUnitIndex(layout, block, slot, head, false);
            const int64_t value = KvUnitIndex(layout, block, slot, head, true);
            for (int32_t d = 0; d < layout.dim; ++d) {
              EXPECT_TRUE(used.insert(key + KeyInUnit(layout, slot % kKvUnit, d)).second);
              EXPECT_TRUE(used.insert(value + ValueInUnit(layout, slot % kKvUnit, d)).second);
            }
          }
        }
      }
      EXPECT_EQ(static_cast<int64_t>(used.size()), int64_t{2} * 48 * 3 * layout.dim * 2);
      EXPECT_EQ(*used.rbegin(), static_cast<int64_t>(used.size()) - 1);
    }
  }
  EXPECT_EQ(GpuPaddedHeadDim(257, false), 0);
  EXPECT_EQ(GpuPaddedHeadDim(257, true), 0);
}

TEST(LayoutTest, ALaneHasFourConsecutiveSlots) {
  std::set<int32_t> slots;
  for (int32_t t = 0; t < 4; ++t) {
    for (int32_t i = 0; i < 4; ++i) {
      const int32_t slot = ScoreSlot(i / 2, 2 * t + i % 2);
      EXPECT_EQ(slot, 4 * t + i);
      slots.insert(slot);
    }
  }
  EXPECT_EQ(slots.size(), 16u);
}

TEST(LayoutTest, RefusesMoreLeavesThanTheKernelsAdd) {
  EXPECT_EQ(MakeLeafMap(std::vector<int64_t>(17)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SamplingTest, BitsOrderAsTheNumbersDo) {
  const float ascending[] = {-INFINITY, -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 3e38f, INFINITY};
  uint32_t before = OrderedBits(std::bit_cast<uint32_t>(NAN));
  EXPECT_EQ(before, 0u);
  for (const float value : ascending) {
    const uint32_t bits = OrderedBits(std::bit_cast<uint32_t>(value));
    EXPECT_GT(bits, before) << value;
    before = bits;
  }
  EXPECT_EQ(OrderedBits(std::bit_cast<uint32_t>(-0.0f)), OrderedBits(0));
}

TEST(ExpertOrderTest, LargerLogitsFirstThenSmallerIndicesThenNan) {
  const auto order = [](float logit, int32_t expert) {
    return ExpertOrder(OrderedBits(BitsOf(logit)), expert);
  };
  EXPECT_GT(order(2, 7), order(1, 0));
  EXPECT_GT(order(1, 0), order(1, 1));
  EXPECT_GT(order(-0.0f, 3), order(0, 4));
  EXPECT_GT(order(-INFINITY, 9), order(NAN, 0));
  EXPECT_GT(order(NAN, 4095), 0u) << "0 stands for no expert";
  for (const int32_t expert : {0, 1, 31, 4095}) EXPECT_EQ(ExpertOf(order(-3, expert)), expert);
}

}  // namespace
}  // namespace tutti::kernels::cuda
