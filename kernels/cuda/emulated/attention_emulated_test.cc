// However tiles of attention are shared out among blocks, a row's bits are the same: walked by a
// block of few pairs, by one of many, or computed apart and folded.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Device : public Launcher {
 public:
  void Start(const KernelLaunch& launch) override {
    emulated::RunGrid(
        launch.grid, launch.threads, launch.shared_bytes,
        [&] { launch.call(launch.kernel, launch.argument); }, launch.early != 0);
  }
};

float Noise(Random* random) { return static_cast<float>(random->Uniform() * 2 - 1); }

// Rows of one sequence over three tiles, of which the last ones end within a tile.
class OneSequence {
 public:
  static constexpr int32_t kRows = 3, kGroup = 5, kKvHeads = 2, kTiles = 3;
  static constexpr int32_t kBlockSize = 48, kBlocks = 6;
  // Positions of the first row: before the last tile, and such that all are in its second unit.
  static constexpr int32_t kBeforeLast = 255, kInSecondUnit = 280;

  OneSequence(DType type, int32_t dim, int32_t head_dim, int32_t first = kBeforeLast)
      : type_(type), first_(first) {
    Random random(static_cast<uint64_t>(dim));
    args_.layout = {.block_size = kBlockSize, .kv_heads = kKvHeads, .dim = dim};
    args_.head_dim = head_dim;
    args_.group = kGroup;
    args_.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    q_.resize(static_cast<size_t>(kRows * Width()));
    for (float& x : q_) x = 3 * Noise(&random);
    cache_.resize(int64_t{2} * kBlocks * kBlockSize * kKvHeads * dim / 8);
    for (int32_t slot = 0; slot < kBlocks * kBlockSize; ++slot) {
      for (int32_t head = 0; head < kKvHeads; ++head) {
        for (int32_t d = 0; d < dim; ++d) {
          for (bool value : {false, true}) Set(slot, head, d, value, Noise(&random));
        }
      }
    }
    // Nobody may see what lies behind the last row; and of the last rows only some see Inf and NaN.
    for (int32_t d = 0; d < head_dim; ++d) {
      for (bool value : {false, true}) Set(first_ + kRows, 0, d, value, NAN);
    }
    Set(first_ + 1, 0, 3, true, kInfinity);
    Set(first_ + 2, 1, 1, true, NAN);
    Set(first_ + 2, 1, head_dim - 1, true, -kInfinity);
    args_.q = q_.data();
    args_.q_stride = args_.out_stride = Width();
    args_.cache = cache_.data();
    args_.blocks = table_.data();
  }

  int32_t Width() const { return kKvHeads * kGroup * args_.head_dim; }

  void MakeQueriesPositive() {
    for (float& x : q_) x = std::fabs(x);
  }
  // The key, or the value, of a slot, of every head.
  void SetKeys(int32_t slot, float key) { SetAll(slot, false, key); }
  void SetValues(int32_t slot, float value) { SetAll(slot, true, value); }

  using Attention = void (*)(DType, const AttentionArgs&, Launcher*);
  // The output's bits, with one NaN for all.
  std::vector<uint32_t> Run(Attention attention, bool apart) {
    std::vector<AttentionItem> items;
    AttentionItem item = {.first_position = first_, .pair_end = kRows * kGroup};
    for (int32_t tile = 0; apart && tile < kTiles; ++tile) {
      item.tile_begin = item.record = tile;
      item.tile_end = tile + 1;
      items.push_back(item);
    }
    item.tile_end = kTiles;
    if (!apart) items.push_back(item);
    items.emplace_back();  // nothing to do
    const FoldItem fold = {.first_position = first_, .pair_end = kRows * kGroup};
    std::vector<float> out(static_cast<size_t>(kRows * Width()), 77.0f);
    std::vector<float> values(int64_t{kTiles} * kKvHeads * kPairs * args_.layout.dim, NAN);
    std::vector<float> sums(int64_t{kTiles} * kKvHeads * kPairs * 2, NAN);
    args_.out = out.data();
    args_.items = items.data();
    args_.item_count = static_cast<int32_t>(items.size());
    args_.folds = &fold;
    args_.fold_count = apart ? 1 : 0;
    args_.fold_pairs = kPairs;
    args_.record_values = values.data();
    args_.record_sums = sums.data();
    attention(type_, args_, &device_);
    LaunchFold(args_, &device_);
    std::vector<uint32_t> bits;
    for (const float x : out) bits.push_back(std::bit_cast<uint32_t>(std::isnan(x) ? NAN : x));
    return bits;
  }

 private:
  void SetAll(int32_t slot, bool value, float x) {
    for (int32_t head = 0; head < kKvHeads; ++head) {
      for (int32_t d = 0; d < args_.head_dim; ++d) Set(slot, head, d, value, x);
    }
  }
  void Set(int32_t slot, int32_t head, int32_t d, bool value, float x) {
    auto* const cache = reinterpret_cast<uint16_t*>(cache_.data());
    const int64_t unit = KvUnitIndex(args_.layout, table_[static_cast<size_t>(slot / kBlockSize)],
                                     slot % kBlockSize, head, value);
    const int32_t in_unit = value ? ValueInUnit(args_.layout, slot % kKvUnit, d)
                                  : KeyInUnit(args_.layout, slot % kKvUnit, d);
    cache[unit + in_unit] = type_ == DType::kBF16 ? F32ToBf16(x) : F32ToF16(x);
  }

  struct alignas(16) Piece {
    uint16_t values[8];
  };
  const DType type_;
  const int32_t first_;
  Device device_;
  AttentionArgs args_;
  std::vector<float> q_;
  std::vector<Piece> cache_;
  std::vector<int32_t> table_ = {4, 0, 5, 1, 3, 2};
};

TEST(AttentionEmulatedTest, BitsAreTheSameHoweverTilesAreSharedOut) {
  constexpr int32_t kHeads[][2] = {{64, 40}, {96, 96}, {128, 128}, {256, 200}};
  for (const auto& [dim, head_dim] : kHeads) {
    for (const DType type : {DType::kBF16, DType::kF16}) {
      for (const int32_t first : {OneSequence::kBeforeLast, OneSequence::kInSecondUnit}) {
        if (type == DType::kF16 && dim != 96) continue;
        OneSequence sequence(type, dim, head_dim, first);
        const std::vector<uint32_t> many = sequence.Run(&LaunchAttention, false);
        for (const OneSequence::Attention few : {&LaunchFewAttention, &LaunchCrowdedAttention}) {
          EXPECT_EQ(sequence.Run(few, false), many) << dim << ", from " << first;
          EXPECT_EQ(sequence.Run(few, true), many) << dim << ", from " << first;
        }
      }
    }
  }
}

// A tile whose scores are all -Inf holds nothing, whatever its values; with a NaN among them it
// does.
TEST(AttentionEmulatedTest, TilesWithoutALargestScore) {
  OneSequence sequence(DType::kBF16, 64, 64);
  for (int32_t slot : {256, 257}) sequence.SetValues(slot, 1);
  sequence.MakeQueriesPositive();
  for (int32_t slot = 0; slot < kAttentionTile; ++slot) sequence.SetKeys(slot, -kInfinity);
  sequence.SetValues(5, kInfinity);
  sequence.SetKeys(256, -kInfinity);
  sequence.SetKeys(257, NAN);
  const std::vector<uint32_t> many = sequence.Run(&LaunchAttention, false);
  for (int32_t row = 0; row < OneSequence::kRows; ++row) {
    for (int32_t i = 0; i < sequence.Width(); ++i) {
      const uint32_t bits = many[static_cast<size_t>(row * sequence.Width() + i)];
      EXPECT_EQ(std::isnan(std::bit_cast<float>(bits)), row == 2) << row << ", " << i;
    }
  }
  for (const OneSequence::Attention few : {&LaunchFewAttention, &LaunchCrowdedAttention}) {
    EXPECT_EQ(sequence.Run(few, false), many);
    EXPECT_EQ(sequence.Run(few, true), many);
  }
}

// More tiles than a block of the fold has threads, some of them without anything.
TEST(AttentionEmulatedTest, FoldsTilesInOrder) {
  constexpr int32_t kDim = 64, kHeadDim = 40, kKvHeads = 2, kGroup = 3, kTiles = 3 * kDim + 5;
  Random random(5);
  std::vector<float> values(int64_t{kTiles} * kKvHeads * kPairs * kDim);
  std::vector<float> sums(int64_t{kTiles} * kKvHeads * kPairs * 2);
  for (float& x : values) x = Noise(&random);
  for (size_t i = 0; i < sums.size(); i += 2) {
    const bool any = i < 2 * kPairs || random.Between(0, 5) > 0;
    sums[i] = any ? 20 * Noise(&random) : -kInfinity;
    sums[i + 1] = any ? 2 + Noise(&random) : 0;
  }
  // A row in the last tile, and before it one in the last but one.
  const FoldItem folds[] = {{.first_row = 1,
                             .first_position = (kTiles - 1) * kAttentionTile - 1,
                             .pair_begin = 1,
                             .pair_end = 2 * kGroup,
                             .record = 0},
                            {}};
  constexpr int64_t kWidth = kKvHeads * kGroup * kHeadDim;
  std::vector<float> out(3 * kWidth, 77.0f);
  AttentionArgs args;
  args.out = out.data();
  args.out_stride = kWidth;
  args.layout = {.block_size = 16, .kv_heads = kKvHeads, .dim = kDim};
  args.head_dim = kHeadDim;
  args.group = kGroup;
  args.folds = folds;
  args.fold_count = 2;
  args.fold_pairs = 2 * kGroup - 1;
  args.record_values = values.data();
  args.record_sums = sums.data();
  Device device;
  LaunchFold(args, &device);
  for (int64_t i = 0; i < kWidth; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 77.0f);
  for (int32_t pair = 0; pair < 2 * kGroup; ++pair) {
    for (int32_t head = 0; head < kKvHeads; ++head) {
      for (int32_t d = 0; d < kHeadDim; ++d) {
        Softmax softmax;
        float value = 0;
        for (int32_t tile = 0; tile < kTiles - 1 + pair / kGroup; ++tile) {
          const int64_t record = (int64_t{tile} * kKvHeads + head) * kPairs + pair - 1;
          if (pair == 0) break;
          const FoldScale fold = Fold(&softmax, sums[record * 2], sums[record * 2 + 1]);
          value = FoldValue(fold, value, values[record * kDim + d]);
        }
        const int64_t at =
            (1 + pair / kGroup) * kWidth + (int64_t{head} * kGroup + pair % kGroup) * kHeadDim + d;
        ASSERT_EQ(out[static_cast<size_t>(at)], pair == 0 ? 77.0f : value / softmax.sum)
            << "pair " << pair << " head " << head << " dim " << d;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
