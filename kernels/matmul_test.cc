// Matrix products and embeddings: every type and odd shape against the reference, and the bits of a
// row beside any others.
#include "kernels/cpu/weight_layout.h"
#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

constexpr int64_t kRows[] = {0, 1, 2, 3, 5, 6, 7, 12, 13, 16, 17, 64, 65, 130};
constexpr int64_t kOuts[] = {1, 15, 16, 17, 63, 100, 257};
constexpr int64_t kIns[] = {1, 2, 3, 31, 64, 100, 130};
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

WeightSource Source(Matrix& weight, std::vector<int64_t> leaf_begin = {}) {
  return {{weight.view()}, std::move(leaf_begin), "w"};
}

// Eight leaves of uneven lengths, some of them empty or odd.
std::vector<int64_t> EightLeaves(int64_t in) {
  return {0, in / 7, in / 7, in / 5, in / 3, in / 2, in / 2, in - in / 9, in};
}

class MatMulTest : public KernelTest {
 protected:
  Matrix Product(Backend& backend, Matrix& in, const Weight& weight) {
    Matrix out(in.rows(), weight.out_features(), DType::kF32, 3);
    backend.MatMul(in.view(), weight, out.view());
    return out;
  }
};

TEST_P(MatMulTest, IntegersAreExactInEveryShape) {
  for (DType dtype : kTypes) {
    for (int64_t n : kOuts) {
      for (int64_t k : kIns) {
        if (IsSlow(*tested_) && (n + k) % 4 != 1) continue;
        Matrix w = Matrix(n, k, dtype, 1).FillIntegers(static_cast<uint64_t>(n * 1000 + k));
        for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(k)}) {
          const auto packed = *tested_->Pack(Source(w, leaves));
          const auto plain = *reference_->Pack(Source(w, leaves));
          Matrix in = Matrix(130, k, DType::kF32, 5).FillIntegers(7);
          Matrix expected = Product(*reference_, in, *plain);
          for (int64_t rows : kRows) {
            Matrix out(rows, n, DType::kF32, 3);
            tested_->MatMul(in.view().Rows(0, rows), *packed, out.view());
            for (int64_t r = 0; r < rows; ++r) {
              ASSERT_TRUE(SameBits(out, r, expected, r))
                  << DTypeName(dtype) << " " << rows << " x " << n << " x " << k << ", "
                  << leaves.size() << " leaf bounds, row " << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, RealNumbersAreNearTheReference) {
  for (DType dtype : kTypes) {
    for (int64_t k : {3, 100, 1000}) {
      Matrix w = Matrix(100, k, dtype).Fill(static_cast<uint64_t>(k));
      // Rounded to bf16 already, so that the bf16 dot class has nothing left to round.
      Matrix in = Matrix(9, k).Fill(3, DType::kBF16);
      for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(k)}) {
        const auto packed = *tested_->Pack(Source(w, leaves));
        const auto plain = *reference_->Pack(Source(w, leaves));
        // Each of k additions errs by half an ulp of a partial sum, which is of the order of
        // sqrt(k).
        const double tolerance = 6e-8 * static_cast<double>(k + 2);
        EXPECT_TRUE(
            Near(Product(*tested_, in, *packed), Product(*reference_, in, *plain), tolerance))
            << DTypeName(dtype) << " k=" << k;
      }
    }
  }
}

TEST_P(MatMulTest, SomeClassesRoundTheirInput) {
  if (!RoundsInputs(*tested_, DType::kBF16)) GTEST_SKIP() << "class " << tested_->numerics_class();
  Matrix w = Matrix(40, 300, DType::kBF16).Fill(1);
  Matrix in = Matrix(3, 300).Fill(2);
  Matrix rounded = in;
  rounded.Each([](float x) { return RoundTo(DType::kBF16, x); });
  const auto packed = *tested_->Pack(Source(w));
  Matrix a = Product(*tested_, in, *packed), b = Product(*tested_, rounded, *packed);
  for (int64_t r = 0; r < 3; ++r) EXPECT_TRUE(SameBits(a, r, b, r));
}

TEST_P(MatMulTest, RowsDoNotSeeEachOtherOrTheThreads) {
  for (DType dtype : kTypes) {
    for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(517)}) {
      Matrix w = Matrix(300, 517, dtype).Fill(1);
      Matrix in = Matrix(400, 517).Fill(2);
      // A row of infinities and NaN beside the others must not touch them.
      for (int64_t k = 0; k < 517; ++k) in.set(5, k, k % 2 ? INFINITY : NAN);
      const auto packed = *tested_->Pack(Source(w, leaves));
      Matrix all = Product(*tested_, in, *packed);
      for (int threads : {1, 2, 3}) {
        if (IsSlow(*tested_) && threads > 1) break;
        const auto other = Tested(GetParam(), threads);
        const auto repacked = *other->Pack(Source(w, leaves));
        for (int64_t rows : kRows) {
          for (int64_t first : {int64_t{0}, int64_t{17}, 400 - rows}) {
            if (IsSlow(*tested_) && first != 17) continue;
            Matrix out(rows, 300);
            other->MatMul(in.view().Rows(first, rows), *repacked, out.view());
            for (int64_t r = 0; r < rows; ++r) {
              if (first + r == 5) continue;  // NaN payloads are not promised
              ASSERT_TRUE(SameBits(out, r, all, first + r))
                  << DTypeName(dtype) << " threads " << threads << " rows " << rows << " row "
                  << first + r;
            }
          }
        }
      }
    }
  }
}

// As many rows and outputs as keep every multiprocessor of a large GPU busy, whose kernels for that
// are others.
TEST_P(MatMulTest, ManyRowsHaveTheBitsOfFew) {
  const bool many = tested_->name() == "cuda" && !IsSlow(*tested_);
  const int64_t rows = many ? 2100 : 260, outs = many ? 6145 : 35;
  constexpr int64_t kIn = 205, kFew = 7;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Matrix w = Matrix(outs, kIn, dtype).Fill(1);
    Matrix in = Matrix(rows, kIn).Fill(2);
    for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(kIn)}) {
      const auto packed = *tested_->Pack(Source(w, leaves));
      Matrix all = Product(*tested_, in, *packed);
      for (const int64_t first : {int64_t{0}, int64_t{125}, rows / 2, rows - kFew}) {
        Matrix few(kFew, outs);
        tested_->MatMul(in.view().Rows(first, kFew), *packed, few.view());
        for (int64_t r = 0; r < kFew; ++r) {
          ASSERT_TRUE(SameBits(few, r, all, first + r))
              << DTypeName(dtype) << ", " << leaves.size() << " leaf bounds, row " << first + r;
        }
      }
    }
  }
}

TEST_P(MatMulTest, LeavesAddUpInTheTreeThatRanksUse) {
  // Eight leaves on one rank, or two leaves on each of four ranks whose sums are added pairwise:
  // the same bits.
  constexpr int64_t kIn = 800, kOut = 70;
  const std::vector<int64_t> leaves = {0, 100, 210, 300, 395, 500, 600, 690, kIn};
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Matrix w = Matrix(kOut, kIn, dtype).Fill(1);
    Matrix in = Matrix(4, kIn).Fill(2);
    // Beyond f16, in some leaves only.
    for (int64_t k = 0; k < 450; ++k) in.set(1, k, in.at(1, k) * (k < 230 ? 1e6f : 1e5f));
    Matrix whole = Product(*tested_, in, **tested_->Pack(Source(w, leaves)));
    std::vector<Matrix> part;
    for (int rank = 0; rank < 4; ++rank) {
      const int64_t begin = leaves[2 * rank], end = leaves[2 * rank + 2];
      WeightSource source;
      source.parts = {w.view().Columns(begin, end - begin)};
      source.leaf_begin = {0, leaves[2 * rank + 1] - begin, end - begin};
      const auto packed = *tested_->Pack(source);
      part.emplace_back(4, kOut);
      tested_->MatMul(in.view().Columns(begin, end - begin), *packed, part.back().view());
    }
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t n = 0; n < kOut; ++n) {
        const float sum =
            (part[0].at(r, n) + part[1].at(r, n)) + (part[2].at(r, n) + part[3].at(r, n));
        ASSERT_EQ(sum, whole.at(r, n));
      }
    }
  }
}

// Rows far beyond the largest f16, 65,504: alone, among others, in each leaf apart.
TEST_P(MatMulTest, RowsMayBeBeyondTheWeightsType) {
  constexpr int64_t kIn = 517, kOut = 70, kCount = 130;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Matrix w = Matrix(kOut, kIn, dtype).Fill(1);
    Matrix in = Matrix(kCount, kIn).Fill(2, DType::kBF16);
    for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(kIn)}) {
      const auto packed = *tested_->Pack(Source(w, leaves));
      const auto plain = *reference_->Pack(Source(w, leaves));
      Matrix before = Product(*tested_, in, *packed);
      Matrix large = in;
      const float factors[] = {65504, 65536, 1e6f, 1e20f, 1e30f};
      for (int64_t r = 0; r < kCount; r += 3) {
        const float factor = factors[r / 3 % 5];
        // Every second of them in a few places only, the others in all.
        for (int64_t k = 0; k < kIn; k += r % 2 == 0 ? 1 : 100) {
          large.set(r, k, RoundTo(DType::kBF16, in.at(r, k) * factor));
        }
      }
      Matrix all = Product(*tested_, large, *packed),
             expected = Product(*reference_, large, *plain);
      for (int64_t r = 0; r < kCount; ++r) {
        if (r % 3 != 0) {
          EXPECT_TRUE(SameBits(all, r, before, r)) << "beside large rows, row " << r;
        }
        float largest = 0;
        for (int64_t k = 0; k < kIn; ++k) largest = std::max(largest, std::abs(large.at(r, k)));
        for (int64_t n = 0; n < kOut; ++n) {
          ASSERT_NEAR(all.at(r, n), expected.at(r, n), 1e-4f * largest) << r << ", " << n;
        }
      }
      for (const int64_t rows : {1, 7, 16, 17, 65}) {
        Matrix few(rows, kOut);
        tested_->MatMul(large.view().Rows(3, rows), *packed, few.view());
        for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(SameBits(few, r, all, 3 + r)) << rows;
      }
    }
  }
}

TEST_P(MatMulTest, StacksParts) {
  Matrix q = Matrix(20, 31, DType::kBF16).FillIntegers(1),
         k = Matrix(7, 31, DType::kBF16).FillIntegers(2);
  WeightSource source = {{q.view(), k.view()}, {}, "qk"};
  const auto packed = *tested_->Pack(source);
  EXPECT_EQ(packed->out_features(), 27);
  Matrix in = Matrix(2, 31).FillIntegers(3);
  Matrix both = Product(*tested_, in, *packed);
  Matrix first = Product(*tested_, in, **tested_->Pack(Source(q)));
  Matrix second = Product(*tested_, in, **tested_->Pack(Source(k)));
  for (int64_t n = 0; n < 27; ++n) {
    EXPECT_EQ(both.at(1, n), n < 20 ? first.at(1, n) : second.at(1, n - 20));
  }
}

TEST_P(MatMulTest, DenormalsAndInfinities) {
  Matrix w = Matrix(1, 2).FillWith(1);
  Matrix in(3, 2);
  in.set(0, 0, 1e-40f), in.set(0, 1, 0);
  in.set(1, 0, INFINITY), in.set(1, 1, 1);
  in.set(2, 0, -0.0f), in.set(2, 1, -0.0f);
  Matrix out = Product(*tested_, in, **tested_->Pack(Source(w)));
  EXPECT_EQ(out.at(0, 0), 1e-40f);  // f32 weights: denormals are kept in every class
  EXPECT_EQ(out.at(1, 0), INFINITY);
  EXPECT_EQ(out.at(2, 0), 0);
}

TEST_P(MatMulTest, EmbedReadsRowsBackExactly) {
  for (DType dtype : kTypes) {
    for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(131)}) {
      Matrix w = Matrix(200, 131, dtype).Fill(1);
      w.set(7, 3, -0.0f), w.set(7, 4, INFINITY), w.set(7, 5, 1e-7f);
      const auto packed = *tested_->Pack(Source(w, leaves));
      const std::vector<int32_t> ids = {0, 199, 7, 7, 63, 64};
      Matrix out(6, 131, DType::kF32, 2);
      tested_->Embed(ids, *packed, out.view());
      for (size_t i = 0; i < ids.size(); ++i) {
        for (int64_t k = 0; k < 131; ++k) {
          ASSERT_EQ(std::bit_cast<uint32_t>(out.at(static_cast<int64_t>(i), k)),
                    std::bit_cast<uint32_t>(w.at(ids[i], k)));
        }
      }
      tested_->Embed({}, *packed, out.view().Rows(0, 0));
    }
  }
}

TEST_P(MatMulTest, ResidentBytesAreThePlannedOnes) {
  if (tested_->name() != "cpu") GTEST_SKIP() << "a layout of the cpu backend";
  for (DType dtype : kTypes) {
    for (int64_t n : kOuts) {
      for (int64_t k : kIns) {
        Matrix w = Matrix(n, k, dtype).FillWith(1);
        EXPECT_EQ((*tested_->Pack(Source(w)))->bytes(), cpu::PackedBytes(n, k, dtype, {}));
        EXPECT_EQ((*tested_->Pack(Source(w, EightLeaves(k))))->bytes(),
                  cpu::PackedBytes(n, k, dtype, EightLeaves(k)));
      }
    }
  }
  EXPECT_EQ(cpu::PackedBytes(3072, 1024, DType::kBF16, {}), 3072 * 1024 * 2);
}

TEST_P(MatMulTest, RefusesBadSources) {
  Matrix a(4, 6, DType::kBF16), b(4, 7, DType::kBF16), c(4, 6, DType::kF16);
  const auto code = [&](WeightSource source) { return tested_->Pack(source).status().code(); };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{a.view(), b.view()}, {}, ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{a.view(), c.view()}, {}, ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{a.view()}, {0, 2, 4, 6}, ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{a.view()}, {0, 4, 2, 6, 6}, ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{a.view()}, {0, 5}, ""}), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_KERNEL_TEST(MatMulTest);

}  // namespace
}  // namespace tutti::kernels
