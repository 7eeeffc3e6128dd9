// No value of any knob changes a bit.
#include "kernels/tunable.h"

#include <set>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

// Around every border between the classes of products, and of blocks of rows.
constexpr int64_t kRows[] = {1, 2, 4, 6, 7, 12, 13, 48, 49, 97, 193};
// Columns: more groups for each of two threads than may be read at once, the last not whole.
constexpr int64_t kIn = 517, kOut = 2 * 9 * 64 + 6;
// Cached rows of attention.
constexpr int64_t kSlots = 208;
constexpr uint64_t kCombinations = 8;

class TunableTest : public KernelTest {
 protected:
  void SetUp() override {
    if (IsSlow(*tested_) || (tunable_ = tested_->tunable()) == nullptr) {
      GTEST_SKIP() << tested_->name() << " has no knobs";
    }
  }
  // The results of every kind of product, and of attention, one after another, as they are with the
  // knobs now.
  std::vector<Matrix> Products() {
    std::vector<Matrix> products;
    products.push_back(Attend(kSlots, 0));
    products.push_back(Attend(1, kSlots - 1));
    for (const auto& weight : weights_) {
      for (const int64_t rows : kRows) {
        Matrix& out = products.emplace_back(rows, kOut, DType::kF32, 3);
        tested_->MatMul(in_.view().Rows(0, rows), *weight, out.view());
      }
    }
    return products;
  }
  // The last `rows` of kSlots rows, the first of them at `position`.
  Matrix Attend(int64_t rows, int64_t position) {
    KvShape shape;
    shape.dtype = DType::kBF16;
    shape.num_blocks = kSlots / 16;
    shape.block_size = 16;
    shape.kv_heads = 2;
    shape.head_dim = 64;
    if (cache_ == nullptr) cache_ = *tested_->Allocate(tested_->KvLayerBytes(shape));
    std::vector<int32_t> blocks(static_cast<size_t>(shape.num_blocks));
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
    const std::vector<int32_t> row_begin = {0, static_cast<int32_t>(rows)}, begin = {0};
    const std::vector<int32_t> first = {static_cast<int32_t>(position)};
    const AttentionBatch batch = {row_begin, first, begin, blocks};
    const KvLayer layer = {cache_->data(), {}, shape};
    Matrix q = Matrix(kSlots, 4 * 64).Fill(3), k = Matrix(kSlots, 2 * 64).Fill(4);
    Matrix v = Matrix(kSlots, 2 * 64).Fill(5), out(rows, 4 * 64);
    for (int64_t r = 0; r < kSlots; r += 2) MakeTiny(v, r);
    if (rows > 1) tested_->WriteKv(k.view(), v.view(), batch, layer);
    tested_->Attention(q.view().Rows(position, rows), layer, batch, 0.125f, out.view());
    return out;
  }
  // Numbers whose products lie around the least normal one, so that flushing them shows.
  static void MakeTiny(Matrix& m, int64_t row) {
    for (int64_t c = 0; c < m.cols(); ++c) m.set(row, c, m.at(row, c) * 0x1p-125f);
  }
  void Pack() {
    MakeTiny(in_, 0);
    MakeTiny(in_, 5);
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      Matrix w = Matrix(kOut, kIn, dtype).Fill(1);
      // One leaf; and eight, of which one is empty and one longer than the longest piece of a
      // single pass.
      for (const auto& leaves :
           {std::vector<int64_t>{}, {0, 70, 70, 100, 389, 400, 431, 500, kIn}}) {
        weights_.push_back(*tested_->Pack({{w.view()}, leaves, "w"}));
      }
    }
  }
  void ExpectSame(std::vector<Matrix>& expected, const std::string& what) {
    std::vector<Matrix> products = Products();
    for (size_t i = 0; i < products.size(); ++i) {
      for (int64_t r = 0; r < products[i].rows(); ++r) {
        ASSERT_TRUE(SameBits(products[i], r, expected[i], r))
            << what << ": product " << i << " of " << products[i].rows() << " rows, row " << r;
      }
    }
  }

  Tunable* tunable_ = nullptr;
  Matrix in_ = Matrix(193, kIn).Fill(2);
  std::unique_ptr<DeviceBuffer> cache_;
  std::vector<std::unique_ptr<Weight>> weights_;
};

TEST_P(TunableTest, NoValueOfAKnobChangesABit) {
  Pack();
  std::vector<Matrix> expected = Products();
  const std::span<const Knob> knobs = tunable_->knobs();
  for (size_t k = 0; k < knobs.size(); ++k) {
    for (const int64_t value : knobs[k].values) {
      if (value == knobs[k].usual) continue;
      tunable_->SetKnob(k, value);
      EXPECT_EQ(tunable_->knob_value(k), value);
      ExpectSame(expected, std::string(knobs[k].name) + " = " + std::to_string(value));
      if (HasFatalFailure()) return;
    }
    tunable_->SetKnob(k, knobs[k].usual);
  }
}

TEST_P(TunableTest, NorDoManyTogether) {
  Pack();
  std::vector<Matrix> expected = Products();
  const std::span<const Knob> knobs = tunable_->knobs();
  for (uint64_t seed = 0; seed < kCombinations; ++seed) {
    Random random(seed);
    std::string what;
    for (size_t k = 0; k < knobs.size(); ++k) {
      const auto values = static_cast<int64_t>(knobs[k].values.size());
      tunable_->SetKnob(k, knobs[k].values[static_cast<size_t>(random.Between(0, values - 1))]);
      what += std::string(knobs[k].name) + "=" + std::to_string(tunable_->knob_value(k)) + " ";
    }
    ExpectSame(expected, what);
    if (HasFatalFailure()) return;
  }
}

TEST_P(TunableTest, KnobsAreAsTheirContractSays) {
  std::set<std::string_view> names;
  const std::span<const Knob> knobs = tunable_->knobs();
  ASSERT_FALSE(knobs.empty());
  for (size_t k = 0; k < knobs.size(); ++k) {
    const Knob& knob = knobs[k];
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_EQ(knob.name.find_first_of(" =,"), std::string_view::npos) << knob.name;
    EXPECT_FALSE(knob.effect.empty()) << knob.name;
    EXPECT_THAT(knob.values, ::testing::Contains(knob.usual)) << knob.name;
    EXPECT_EQ(std::set<int64_t>(knob.values.begin(), knob.values.end()).size(), knob.values.size());
    EXPECT_GT(knob.rows, 0) << knob.name;
    EXPECT_EQ(tunable_->knob_value(k), knob.usual) << knob.name;
  }
  EXPECT_EQ(tunable_->TunedFor().find(' '), std::string::npos) << tunable_->TunedFor();
}

INSTANTIATE_KERNEL_TEST(TunableTest);

}  // namespace
}  // namespace tutti::kernels
