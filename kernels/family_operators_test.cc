// The operators of some families against the reference, and their promises about ties, NaN and
// rows.
#include "kernels/family_operators.h"

#include <limits>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

const float kNoNumber = std::nanf("");
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class FamilyOperatorsTest : public KernelTest {
 protected:
  void SetUp() override {
    if (tested_->family_operators() == nullptr) GTEST_SKIP() << "it has none";
  }
  FamilyOperators& tested() { return *tested_->family_operators(); }
  FamilyOperators& reference() { return *reference_->family_operators(); }
};

TEST_P(FamilyOperatorsTest, ScaleRowsIsExact) {
  for (const int64_t cols : {1, 17, 300}) {
    Matrix x = Matrix(40, cols, DType::kF32, 3).Fill(1), expected = x;
    std::vector<float> scale;
    for (int r = 0; r < 40; ++r) scale.push_back(1 + 0.01f * static_cast<float>(r));
    tested().ScaleRows(x.view(), scale);
    reference().ScaleRows(expected.view(), scale);
    EXPECT_TRUE(Near(x, expected, 0));
  }
}

TEST_P(FamilyOperatorsTest, SelectExpertsChoosesTheLargest) {
  for (const int64_t experts : {1, 5, 60, 128}) {
    for (const int64_t count : {int64_t{1}, std::min<int64_t>(8, experts), experts}) {
      for (const bool normalise : {false, true}) {
        Matrix logits = Matrix(33, experts).Fill(3);
        // Coarse values, so that many are equal.
        logits.Each([](float y) { return std::round(y * 6); });
        const auto size = static_cast<size_t>(33 * count);
        std::vector<int32_t> ids(size), expected_ids(size);
        std::vector<float> shares(size), expected(size);
        tested().SelectExperts(logits.view(), count, normalise, ids, shares);
        reference().SelectExperts(logits.view(), count, normalise, expected_ids, expected);
        ASSERT_EQ(ids, expected_ids);
        for (size_t i = 0; i < size; ++i) ASSERT_NEAR(shares[i], expected[i], 2e-6);
        if (!normalise) continue;
        for (size_t r = 0; r < 33; ++r) {
          float sum = 0;
          for (int64_t j = 0; j < count; ++j) sum += shares[r * static_cast<size_t>(count) + j];
          EXPECT_NEAR(sum, 1, 1e-5);
        }
      }
    }
  }
}

TEST_P(FamilyOperatorsTest, SelectExpertsBreaksTiesByIndexAndSurvivesNonsense) {
  Matrix logits = Matrix(4, 6).FillWith(2);
  logits.set(1, 4, 3), logits.set(1, 5, 3);
  logits.set(2, 0, kNoNumber);
  for (int64_t e = 0; e < 6; ++e) logits.set(3, e, e == 2 ? 1e30f : -kInfinity);
  std::vector<int32_t> ids(12);
  std::vector<float> shares(12);
  tested().SelectExperts(logits.view(), 3, true, ids, shares);
  EXPECT_THAT(ids, ::testing::ElementsAre(0, 1, 2, 0, 4, 5, 1, 2, 3, 0, 1, 2));
  EXPECT_NEAR(shares[0], 1.0 / 3, 1e-6);
  EXPECT_TRUE(std::isnan(shares[6]));
  EXPECT_EQ(shares[11], 1);
  EXPECT_EQ(shares[9], 0);
}

TEST_P(FamilyOperatorsTest, SelectExpertsRowsAreIndependent) {
  Matrix logits = Matrix(700, 128).Fill(9);
  std::vector<int32_t> all(5600), one(8);
  std::vector<float> shares(5600), share(8);
  tested().SelectExperts(logits.view(), 8, true, all, shares);
  const auto other = Tested(GetParam(), 3);
  for (int64_t r = 0; r < 700; r += 37) {
    other->family_operators()->SelectExperts(logits.view().Rows(r, 1), 8, true, one, share);
    for (size_t j = 0; j < 8; ++j) {
      EXPECT_EQ(one[j], all[static_cast<size_t>(r) * 8 + j]);
      EXPECT_EQ(share[j], shares[static_cast<size_t>(r) * 8 + j]);
    }
  }
}

TEST_P(FamilyOperatorsTest, GatherRowsAndSumRows) {
  for (const int64_t cols : {1, 33, 2048}) {
    Matrix in = Matrix(50, cols, DType::kF32, 2).Fill(1), out(30, cols);
    std::vector<int32_t> rows;
    std::vector<float> weights;
    for (int i = 0; i < 120; ++i) rows.push_back((i * 7) % 50), weights.push_back(0.01f * i);
    tested().GatherRows(in.view(), std::span(rows).first(30), out.view());
    for (int64_t r = 0; r < 30; ++r) ASSERT_TRUE(SameBits(out, r, in, rows[r]));
    Matrix expected(30, cols);
    tested().SumRows(in.view(), rows, weights, out.view());
    reference().SumRows(in.view(), rows, weights, expected.view());
    EXPECT_TRUE(Near(out, expected, 1e-5));
    Matrix one(1, cols);
    for (int64_t r = 0; r < 30; ++r) {
      const auto first = static_cast<size_t>(4 * r);
      tested().SumRows(in.view(), std::span(rows).subspan(first, 4),
                       std::span(weights).subspan(first, 4), one.view());
      ASSERT_TRUE(SameBits(one, 0, out, r));
    }
    Matrix none(0, cols);
    tested().SumRows(in.view(), {}, {}, none.view());
  }
}

INSTANTIATE_KERNEL_TEST(FamilyOperatorsTest);

}  // namespace
}  // namespace tutti::kernels
