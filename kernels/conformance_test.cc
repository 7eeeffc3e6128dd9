// The row-wise operators and sampling against the reference. Products are in matmul_test.cc,
// attention in attention_test.cc.
#include <limits>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

constexpr int64_t kCols[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 1000};
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

class ConformanceTest : public KernelTest {
 protected:
  // The first row of a product of many equals that row alone.
  template <class Fn>
  void ExpectRowsIndependent(int64_t rows, int64_t cols, const Fn& run) {
    Matrix all = Matrix(rows, cols).Fill(1);
    Matrix one = all;
    run(*tested_, all.view(), 0);
    const auto other = Tested(GetParam(), 3);
    for (int64_t r = 0; r < rows; ++r) {
      run(*other, one.view().Rows(r, 1), r);
      ASSERT_TRUE(SameBits(all, r, one, r)) << r;
    }
  }
};

TEST_P(ConformanceTest, RmsNorm) {
  for (int64_t cols : kCols) {
    for (int64_t rows : {0, 1, 7, 40}) {
      Matrix in = Matrix(rows, cols, DType::kF32, 2).Fill(1), w = Matrix(1, cols).Fill(2);
      Matrix out(rows, cols), expected(rows, cols);
      tested_->RmsNorm(in.view(), w.view(), 1e-6f, out.view());
      reference_->RmsNorm(in.view(), w.view(), 1e-6f, expected.view());
      ASSERT_TRUE(Near(out, expected, 2e-6)) << cols;
      tested_->RmsNorm(in.view(), w.view(), 1e-6f, in.view());  // in place
      for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(SameBits(in, r, out, r));
    }
  }
  Matrix w = Matrix(1, 333).Fill(2);
  ExpectRowsIndependent(
      60, 333, [&](Backend& b, TensorView x, int64_t) { b.RmsNorm(x, w.view(), 1e-5f, x); });
}

TEST_P(ConformanceTest, HeadNormRope) {
  for (int64_t head_dim : {2, 8, 64, 80, 96, 128, 256}) {
    for (bool with_norm : {false, true}) {
      Matrix x = Matrix(5, 3 * head_dim, DType::kF32, 1).Fill(1), expected = x;
      Matrix norm = Matrix(1, head_dim).Fill(2);
      const TensorView weight = with_norm ? norm.view() : TensorView{};
      const std::vector<int32_t> positions = {0, 1, 17, 4095, 262143};
      std::vector<float> frequency;
      for (int64_t i = 0; i < head_dim / 2; ++i) {
        frequency.push_back(
            std::pow(1e6f, -2.0f * static_cast<float>(i) / static_cast<float>(head_dim)));
      }
      tested_->HeadNormRope(x.view(), head_dim, weight, 1e-6f, positions, frequency);
      reference_->HeadNormRope(expected.view(), head_dim, weight, 1e-6f, positions, frequency);
      ASSERT_TRUE(Near(x, expected, 3e-6)) << head_dim;
    }
  }
}

TEST_P(ConformanceTest, HeadNormRopeRowsAreIndependent) {
  std::vector<int32_t> positions(70);
  for (int32_t r = 0; r < 70; ++r) positions[static_cast<size_t>(r)] = r * 31;
  const std::vector<float> frequency(32, 0.37f);
  Matrix norm = Matrix(1, 64).Fill(2);
  ExpectRowsIndependent(70, 256, [&](Backend& b, TensorView x, int64_t first) {
    b.HeadNormRope(
        x, 64, norm.view(), 1e-6f,
        std::span(positions).subspan(static_cast<size_t>(first), static_cast<size_t>(x.rows)),
        frequency);
  });
}

TEST_P(ConformanceTest, AddBiasSiluMulAddResidual) {
  for (int64_t cols : kCols) {
    Matrix x = Matrix(9, cols, DType::kF32, 1).Fill(1), bias = Matrix(1, cols).Fill(2);
    Matrix expected = x;
    tested_->AddBias(x.view(), bias.view());
    reference_->AddBias(expected.view(), bias.view());
    ASSERT_TRUE(Near(x, expected, 0));

    Matrix gate_up = Matrix(9, 2 * cols).Fill(3), out(9, cols), plain(9, cols);
    gate_up.Each([](float y) { return y * 20; });
    tested_->SiluMul(gate_up.view(), out.view());
    reference_->SiluMul(gate_up.view(), plain.view());
    ASSERT_TRUE(Near(out, plain, 4e-5)) << cols;  // values reach 400: 1.5 ulp

    for (DType round_to : {DType::kF32, DType::kBF16, DType::kF16}) {
      Matrix a = Matrix(9, cols, DType::kF32, 2).Fill(4), b = Matrix(9, cols).Fill(5);
      Matrix c = a;
      tested_->AddResidual(a.view(), b.view(), round_to);
      reference_->AddResidual(c.view(), b.view(), round_to);
      ASSERT_TRUE(Near(a, c, 0)) << DTypeName(round_to);
    }
  }
}

TEST_P(ConformanceTest, SiluAtTheEnds) {
  Matrix gate_up(1, 12), out(1, 6);
  const float gates[] = {-1e30f, -100, -0.0f, 0, 100, 1e30f};
  for (int64_t i = 0; i < 6; ++i) gate_up.set(0, i, gates[i]), gate_up.set(0, 6 + i, 1);
  tested_->SiluMul(gate_up.view(), out.view());
  EXPECT_NEAR(out.at(0, 0), 0, 1e-7);
  EXPECT_NEAR(out.at(0, 1), 0, 1e-7);
  EXPECT_EQ(out.at(0, 2), 0);
  EXPECT_EQ(out.at(0, 3), 0);
  EXPECT_EQ(out.at(0, 4), 100);
  EXPECT_EQ(out.at(0, 5), 1e30f);
}

// Values at every rounding boundary of the 16-bit formats.
std::vector<float> Boundaries() {
  std::vector<float> values = {0, -0.0f, kInf, -kInf, kNan, 1e-40f, 65504, 65519.9f, 65520, 1e-8f};
  for (uint32_t upper = 0; upper < 0x10000; upper += 37) {
    for (uint32_t lower :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return values;
}

TEST_P(ConformanceTest, ConvertIsExactToTheBit) {
  const std::vector<float> values = Boundaries();
  const auto cols = static_cast<int64_t>(values.size());
  for (DType from : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (DType to : {DType::kF32, DType::kBF16, DType::kF16}) {
      Matrix in(1, cols, from), out(1, cols, to), expected(1, cols, to);
      for (int64_t i = 0; i < cols; ++i) in.set(0, i, values[static_cast<size_t>(i)]);
      tested_->Convert(in.view(), out.view());
      reference_->Convert(in.view(), expected.view());
      ASSERT_TRUE(SameBits(out, 0, expected, 0)) << DTypeName(from) << " to " << DTypeName(to);
    }
  }
}

TEST_P(ConformanceTest, ArgMax) {
  Matrix x = Matrix(8, 1000).Fill(1);
  x.set(0, 999, 5);
  x.set(1, 3, 5), x.set(1, 700, 5);  // a tie: the first
  x.set(2, 500, kNan);
  x.set(3, 0, kInf);
  for (int64_t i = 0; i < 1000; ++i) x.set(4, i, -kInf), x.set(5, i, -kInf), x.set(6, i, -0.0f);
  x.set(5, 998, -3e38f);
  x.set(6, 10, 0.0f);  // equal to -0
  std::vector<int32_t> out(8), expected(8);
  tested_->ArgMax(x.view(), out);
  reference_->ArgMax(x.view(), expected);
  EXPECT_EQ(out, expected);
  EXPECT_THAT(std::vector(out.begin(), out.begin() + 7),
              ::testing::ElementsAre(999, 3, -1, -1, -1, 998, 0));
  for (int64_t cols : kCols) {
    Matrix y = Matrix(3, cols).Fill(static_cast<uint64_t>(cols));
    out.assign(3, 0), expected.assign(3, 1);
    tested_->ArgMax(y.view(), out);
    reference_->ArgMax(y.view(), expected);
    EXPECT_EQ(out, expected) << cols;
  }
}

TEST_P(ConformanceTest, LogSumExp) {
  for (int64_t cols : {int64_t{1}, int64_t{17}, int64_t{1000}, int64_t{151936}}) {
    Matrix x = Matrix(2, cols).Fill(1);
    x.Each([](float y) { return y * 30; });
    if (cols > 20) x.set(1, 9, -kInf);
    for (double inverse : {1e-3, 0.5, 1.0, 1 / 0.7, 1e4, 1e30}) {
      std::vector<double> out(2), expected(2);
      tested_->LogSumExp(x.view(), inverse, out);
      reference_->LogSumExp(x.view(), inverse, expected);
      for (size_t r : {0, 1}) {
        EXPECT_NEAR(out[r], expected[r], 2e-6 * std::max(1.0, std::abs(expected[r]) * 1e-6))
            << cols << " " << inverse;
      }
    }
  }
  Matrix special = Matrix(3, 40).FillWith(-kInf);
  special.set(1, 3, kNan), special.set(1, 4, kInf);
  special.set(2, 3, kInf);
  std::vector<double> out(3);
  tested_->LogSumExp(special.view(), 1, out);
  EXPECT_EQ(out[0], -kInf);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], kInf);
}

TEST_P(ConformanceTest, LogSumExpBitsDoNotDependOnRowsOrThreads) {
  Matrix x = Matrix(5, 5003).Fill(1);
  std::vector<double> all(5), one(1);
  tested_->LogSumExp(x.view(), 1.25, all);
  for (int64_t r = 0; r < 5; ++r) {
    Tested(GetParam(), 1)->LogSumExp(x.view().Rows(r, 1), 1.25, one);
    EXPECT_EQ(one[0], all[static_cast<size_t>(r)]);
  }
}

TEST_P(ConformanceTest, TopCandidates) {
  Matrix x = Matrix(2, 3000).Fill(1);
  // Many ties, a NaN, both infinities.
  x.Each([](float y) { return std::round(y * 50); });
  x.set(1, 5, kNan), x.set(1, 2000, kInf), x.set(1, 7, -kInf);
  for (int64_t row : {0, 1}) {
    for (int64_t count : {0, 1, 2, 20, 375, 376, 2999, 3000, 100000}) {
      std::vector<Candidate> out, expected;
      tested_->TopCandidates(x.view(), row, count, &out);
      reference_->TopCandidates(x.view(), row, count, &expected);
      ASSERT_EQ(out.size(), expected.size());
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i].id, expected[i].id) << count << " " << i;
        ASSERT_EQ(out[i].logit, expected[i].logit);
      }
    }
  }
}

TEST_P(ConformanceTest, TopCandidatesOfRowsAreThoseOfEachRow) {
  Matrix x = Matrix(9, 4000).Fill(1);
  x.Each([](float y) { return std::round(y * 5000); });
  // Row 2 is full of one number, row 3 has too few, row 5 a NaN and an infinity.
  for (int64_t i = 0; i < 4000; ++i) {
    x.set(2, i, 1);
    if (i >= 30) x.set(3, i, kNan);
  }
  x.set(5, 5, kNan), x.set(5, 2000, kInf), x.set(5, 7, -kInf);
  const std::vector<int32_t> rows = {8, 2, 0, 3, 3, 5, 1};
  for (const int64_t count : {1, 20, 64, 1500}) {
    std::vector<Candidate> out(rows.size() * static_cast<size_t>(count), Candidate{.id = 77});
    tested_->TopCandidatesOfRows(x.view(), rows, count, out);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::vector<Candidate> expected;
      reference_->TopCandidates(x.view(), rows[r], count, &expected);
      expected.resize(static_cast<size_t>(count), Candidate{.id = -1});
      for (size_t i = 0; i < expected.size(); ++i) {
        const Candidate& got = out[r * expected.size() + i];
        ASSERT_EQ(got.id, expected[i].id) << count << ", row " << rows[r] << ", " << i;
        if (got.id >= 0) {
          ASSERT_EQ(got.logit, expected[i].logit);
        }
      }
    }
  }
  tested_->TopCandidatesOfRows(x.view(), {}, 64, {});
}

TEST_P(ConformanceTest, Pick) {
  Matrix x = Matrix(1, 500).Fill(1);
  const std::vector<int32_t> ids = {499, 0, 17, 17};
  std::vector<float> out(4);
  tested_->Pick(x.view(), ids, out);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], x.at(0, ids[i]));
  tested_->Pick(x.view(), {}, {});
}

TEST_P(ConformanceTest, AdjustLogits) {
  Matrix x = Matrix(2, 10).FillWith(2), expected = x;
  x.set(1, 3, -2), expected.set(1, 3, -2);
  const std::vector<LogitAdjustment> adjustments = {
      {0, 1, 1.5f, 0}, {1, 3, 1.5f, 0.25f}, {1, 3, 1, -1}, {0, 9, 1, -kInf}};
  tested_->AdjustLogits(x.view(), adjustments);
  reference_->AdjustLogits(expected.view(), adjustments);
  EXPECT_TRUE(Near(x, expected, 0));
  EXPECT_EQ(x.at(1, 3), -3.75f);
  EXPECT_EQ(x.at(0, 9), -kInf);
}

// More rows than have room on a device at a time, and last words that are not full.
TEST_P(ConformanceTest, MaskLogits) {
  for (const int64_t cols : {int64_t{1}, int64_t{32}, int64_t{70}, int64_t{1000}}) {
    const int64_t words = (cols + 31) / 32;
    Matrix x = Matrix(75, cols).Fill(3);
    std::vector<int32_t> rows;
    std::vector<uint32_t> masks;
    for (int32_t row = 74; row >= 0; row -= 2) {
      rows.push_back(row);
      for (int64_t w = 0; w < words; ++w) {
        masks.push_back(row % 10 == 0   ? 0
                        : row % 10 == 2 ? ~0u
                                        : static_cast<uint32_t>(0x9E3779B9u * (row + w * 77 + 1)));
      }
    }
    Matrix expected = x;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t c = 0; c < cols; ++c) {
        const uint32_t word = masks[i * static_cast<size_t>(words) + static_cast<size_t>(c / 32)];
        if ((word >> (c % 32) & 1) == 0) expected.set(rows[i], c, -kInf);
      }
    }
    tested_->MaskLogits(x.view(), rows, masks);
    EXPECT_TRUE(Near(x, expected, 0)) << cols;
    tested_->MaskLogits(x.view(), {}, {});
    EXPECT_TRUE(Near(x, expected, 0)) << cols;
  }
}

TEST_P(ConformanceTest, BuffersAreZeroedAndAligned) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4097}, int64_t{5} << 20}) {
    const auto buffer = *tested_->Allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<char*>(buffer->data())[i], 0);
  }
  EXPECT_EQ(tested_->Allocate(int64_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(tested_->Allocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_KERNEL_TEST(ConformanceTest);

TEST(RegistryTest, NamesWhatItKnows) {
  const auto unknown = CreateBackend("gpu", {});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), ::testing::HasSubstr("\"reference\""));
  BackendOptions options;
  options.num_threads = -1;
  EXPECT_EQ(CreateBackend("cpu", options).status().code(), absl::StatusCode::kInvalidArgument);
  options = {};
  options.numerics_class = "cpu-f32";
  EXPECT_EQ(CreateBackend("reference", options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CudaTest, IsAmongTheTestedOrSaysWhyNot) {
  if (TestedBackends() == std::vector<std::string>{"cuda-emulated"}) {
    GTEST_SKIP() << "only the emulated GPU is tested here";
  }
  const auto backend = CreateBackend("cuda:0", {});
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  EXPECT_THAT(TestedBackends(), ::testing::Contains("cuda:0"));
}

TEST(DeviceDeathTest, OperandsElsewhereAreNamed) {
  const auto backend = Reference();
  Matrix x = Matrix(1, 4).Fill(1), y = x;
  TensorView elsewhere = y.view();
  elsewhere.device = {DeviceKind::kCuda, 1};
  EXPECT_DEATH(backend->RmsNorm(x.view(), x.view(), 1e-5f, elsewhere),
               "RmsNorm on cpu:0: an operand lies on cuda:1");
  EXPECT_DEATH(backend->Convert(elsewhere, x.view()), "Convert on cpu:0: from cuda:1");
}

}  // namespace
}  // namespace tutti::kernels
