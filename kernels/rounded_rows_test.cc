// Products of rows that are rounded to integers: every instruction set against the definition, and
// that against another way to write it.
#include <limits>

#include "kernels/family_operators.h"
#include "kernels/kernels_testing.h"
#include "kernels/quantised_source.h"
#include "kernels/reference/quantised_weight.h"
#include "kernels/row_integers.h"
#include "kernels/tunable.h"

namespace tutti::kernels {
namespace {

// Integers of any value, with a scale for each output.
class Integers {
 public:
  Integers(int64_t out, int64_t in, uint64_t seed)
      : out_(out), in_(in), group_of_(static_cast<size_t>(in)) {
    Random random(seed);
    for (int64_t i = 0; i < out * in; ++i) {
      codes_.push_back(static_cast<uint8_t>(random.Chance(0.1) ? random.Between(0, 1) * 255
                                                               : random.Between(0, 255)));
    }
    for (int64_t n = 0; n < out; ++n) {
      scales_.push_back(F32ToBf16(static_cast<float>(0.001 + random.Uniform())));
    }
  }
  // Inputs [begin, begin + in).
  QuantisedSource Source(std::vector<int64_t> leaves, int64_t begin, int64_t in) const {
    QuantisedSource source;
    source.kind = CodeKind::kInt8;
    source.scale_type = DType::kBF16;
    source.rounds_rows = true;
    source.in_features = in;
    source.groups = 1;
    source.leaf_begin = std::move(leaves);
    source.name = "w";
    source.parts.push_back({.rows = out_,
                            .codes = codes_.data() + begin,
                            .code_stride = in_,
                            .scales = reinterpret_cast<const std::byte*>(scales_.data()),
                            .group_stride = 1,
                            .group_of = std::span(group_of_).first(static_cast<size_t>(in))});
    return source;
  }
  QuantisedSource Source(std::vector<int64_t> leaves = {}) const {
    return Source(std::move(leaves), 0, in_);
  }
  int value(int64_t n, int64_t k) const { return codes_[static_cast<size_t>(n * in_ + k)] - 128; }
  float scale(int64_t n) const { return Bf16ToF32(scales_[static_cast<size_t>(n)]); }

 private:
  const int64_t out_, in_;
  const std::vector<int32_t> group_of_;
  std::vector<uint8_t> codes_;
  std::vector<uint16_t> scales_;
};

// Rows of very different sizes, denormal ones and zeros among them, and in each some ties.
Matrix RowsOfAllSizes(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix in(rows, cols, DType::kF32, 3);
  Random random(seed);
  for (int64_t r = 0; r < rows; ++r) {
    const double size = std::ldexp(1, static_cast<int>(random.Between(-150, 100)));
    for (int64_t k = 0; k < cols; ++k) {
      const double x = random.Chance(0.2) ? static_cast<double>(random.Between(-254, 254)) / 254
                                          : random.Uniform() * 2 - 1;
      in.set(r, k, r % 7 == 3 ? 0.f : static_cast<float>(size * x));
    }
  }
  return in;
}

Matrix Rounded(Matrix& in, const QuantisedSource& source) {
  const auto weight = *ReferenceQuantised::Make(source);
  Matrix out(in.rows(), weight->out_features(), DType::kF32, 1);
  weight->MatMul(in.view(), out.view(), std::nullopt);
  return out;
}

void ChooseWay(Backend& backend, int64_t by_f32) {
  Tunable* const tunable = backend.tunable();
  for (size_t k = 0; tunable != nullptr && k < tunable->knobs().size(); ++k) {
    if (tunable->knobs()[k].name.starts_with("f32-")) tunable->SetKnob(k, by_f32);
  }
}

TEST(RowIntegersTest, ToNearestEvenByTheLargest) {
  const float row[] = {127, -126.5f, 0.5f, 1.5f, 2.5f, -0.5f, -0.f, 3.49f};
  EXPECT_EQ(LargestOfRow(row, 8), 127);
  EXPECT_EQ(LargestOfRow(row + 1, 7), 126.5f) << "a magnitude";
  int16_t found[8];
  RoundRow(row, 8, RowScale(127), found);
  EXPECT_THAT(found, testing::ElementsAre(127, -126, 0, 2, 2, 0, 0, 3));
  RoundRow(row, 8, RowScale(0), found);
  EXPECT_THAT(found, testing::Each(0));
  const float bad[] = {1, -INFINITY, 2, NAN, 3};
  EXPECT_TRUE(std::isnan(RowScale(LargestOfRow(bad, 2))));
  EXPECT_TRUE(std::isnan(RowScale(LargestOfRow(bad, 5))));
  // So small that a scale has few digits left.
  const float small[] = {189 * 0x1p-149f, -0x1p-149f};
  RoundRow(small, 2, RowScale(LargestOfRow(small, 2)), found);
  EXPECT_EQ(found[0], 127);
  EXPECT_EQ(found[1], -1);
}

TEST(RowIntegersTest, TheReferenceIsTheDefinition) {
  constexpr int64_t kIn = 70, kOut = 9, kRows = 20;
  const Integers integers(kOut, kIn, 1);
  Matrix in = RowsOfAllSizes(kRows, kIn, 2);
  Matrix found = Rounded(in, integers.Source());
  for (int64_t r = 0; r < kRows; ++r) {
    float largest = 0;
    for (int64_t k = 0; k < kIn; ++k) largest = std::max(largest, std::abs(in.at(r, k)));
    const float step = largest / 127;
    for (int64_t n = 0; n < kOut; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < kIn && step > 0; ++k) {
        const float q = std::nearbyint(in.at(r, k) / step);
        sum += std::min(std::max(q, -127.f), 127.f) * integers.value(n, k);
      }
      ASSERT_EQ(found.at(r, n), static_cast<float>(sum) * step * integers.scale(n))
          << r << " " << n;
    }
  }
}

class RoundedRowsTest : public KernelTest {
 protected:
  void SetUp() override {
    if (tested_->name() != "cpu") GTEST_SKIP() << "no kernels that round rows";
  }
};

TEST_P(RoundedRowsTest, BitsAreThoseOfTheDefinition) {
  for (const int64_t in : {1, 31, 64, 129, 640}) {
    const Integers integers(130, in, 5);
    Matrix rows = RowsOfAllSizes(75, in, 6);
    for (const auto& leaves :
         {std::vector<int64_t>{}, std::vector<int64_t>{0, in / 3, in / 3, in - in / 5, in}}) {
      const auto source = integers.Source(leaves);
      Matrix expected = Rounded(rows, source);
      for (const int threads : {1, 3}) {
        const auto backend = Tested(GetParam(), threads);
        const auto packed = *backend->PackQuantised(source);
        for (const int64_t count : {1, 6, 17, 75}) {
          for (const int64_t by_f32 : {0, 1}) {
            ChooseWay(*backend, by_f32);
            Matrix out(count, 130);
            backend->MatMul(rows.view().Rows(0, count), *packed, out.view());
            for (int64_t r = 0; r < count; ++r) {
              ASSERT_TRUE(SameBits(out, r, expected, r))
                  << in << " inputs, row " << r << ", by f32 " << by_f32;
            }
          }
        }
      }
    }
  }
}

TEST_P(RoundedRowsTest, RanksThatKnowTheLargestAddUpToTheWhole) {
  constexpr int64_t kIn = 300, kOut = 70;
  const std::vector<int64_t> leaves = {0, 50, 50, 170, kIn};
  const Integers integers(kOut, kIn, 3);
  Matrix in = RowsOfAllSizes(8, kIn, 4);
  in.set(1, 3, NAN);
  in.set(2, 299, -INFINITY);
  Matrix whole(8, kOut);
  tested_->MatMul(in.view(), **tested_->PackQuantised(integers.Source(leaves)), whole.view());
  std::vector<float> largest;
  for (int64_t r = 0; r < 8; ++r) largest.push_back(LargestOfRow(in.view().f32(r), kIn));
  std::vector<Matrix> part;
  for (int rank = 0; rank < 2; ++rank) {
    const int64_t begin = leaves[2 * rank], end = leaves[2 * rank + 2];
    const auto source =
        integers.Source({0, leaves[2 * rank + 1] - begin, end - begin}, begin, end - begin);
    part.emplace_back(8, kOut);
    tested_->family_operators()->MatMulRounded(in.view().Columns(begin, end - begin), largest,
                                               **tested_->PackQuantised(source),
                                               part.back().view());
  }
  for (int64_t r = 0; r < 8; ++r) {
    for (int64_t n = 0; n < kOut; ++n) {
      if (r == 1 || r == 2) {
        EXPECT_TRUE(std::isnan(whole.at(r, n)) && std::isnan(part[0].at(r, n)))
            << "a row that is no number is seen by every rank";
      } else {
        ASSERT_EQ(part[0].at(r, n) + part[1].at(r, n), whole.at(r, n)) << r << ", " << n;
      }
    }
  }
}

TEST_P(RoundedRowsTest, RefusesOtherCodes) {
  const Integers integers(4, 64, 1);
  const auto code = [&](const QuantisedSource& source) {
    return tested_->PackQuantised(source).status().code();
  };
  QuantisedSource source = integers.Source();
  source.kind = CodeKind::kE4m3;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "floats";
  source = integers.Source();
  source.groups = 2;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "two scales";
  const uint8_t zeros[4] = {};
  source = integers.Source();
  source.parts[0].zeros = zeros;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "zero points";
}

INSTANTIATE_KERNEL_TEST(RoundedRowsTest);

}  // namespace
}  // namespace tutti::kernels
