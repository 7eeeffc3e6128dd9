// The class that multiplies many rows by cuBLASLt, on the emulated GPU, by a library that computes
// on the host what the real one would: layouts, transposes, leading dimensions, types, scales and
// work space are those that a GPU would see. What the real library does is not shown here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/gpu_memory.h"
#include "kernels/kernels_testing.h"
#include "kernels/staged_backend_testing.h"

namespace tutti::kernels::cuda {
namespace {

constexpr char kClass[] = "cuda-emulated-cublas";
constexpr int64_t kMany = 130;  // the least that are many are 128

std::string Library(const std::string& kind) {
  return std::string(TUTTI_LIBRARIES) + "/libtutti_cublaslt_" + kind + ".so";
}

std::vector<int64_t> EightLeaves(int64_t in) {
  return {0, in / 7, in / 7, in / 5, in / 3, in / 2, in / 2, in - in / 9, in};
}

class CublasLtTest : public ::testing::Test {
 protected:
  CublasLtTest() {
    Use("testing");
    Behave("");
  }
  ~CublasLtTest() override { Behave(""); }

  static void Use(const std::string& kind) {
    setenv("TUTTI_CUBLASLT_LIBRARY", Library(kind).c_str(), 1);
  }
  static void Behave(const char* how) { setenv("CUBLASLT_TESTING", how, 1); }
  static absl::StatusOr<std::unique_ptr<Backend>> Open() {
    return OpenEmulatedBackend({.numerics_class = kClass}, 0);
  }
  static std::string WhyNot() { return std::string(Open().status().message()); }

  // Takes views of the host.
  static std::unique_ptr<Backend> Tested() { return MakeStagedBackend(*Open()); }
  static std::unique_ptr<Backend> Exact() { return MakeStagedBackend(*OpenEmulatedBackend({}, 0)); }
  static Matrix Product(Backend& backend, Matrix& in, const Weight& weight) {
    return Of(backend, in, weight, in.rows());
  }
  // Of the first rows.
  static Matrix Of(Backend& backend, Matrix& in, const Weight& weight, int64_t rows) {
    Matrix out(rows, weight.out_features(), DType::kF32, 3);
    backend.MatMul(in.view().Rows(0, rows), weight, out.view());
    return out;
  }
  static WeightSource Source(Matrix& weight, std::vector<int64_t> leaves = {}) {
    return {{weight.view()}, std::move(leaves), "w"};
  }
};

TEST_F(CublasLtTest, SaysWhatItIs) {
  const auto backend = Open();
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->numerics_class(), kClass);
  EXPECT_FALSE((*backend)->exact());
  EXPECT_TRUE(absl::StrContains(std::string((*backend)->remark()), "cuBLASLt 13.1.0"));
  const auto exact = OpenEmulatedBackend({}, 0);
  EXPECT_TRUE((*exact)->exact());
  EXPECT_EQ((*exact)->numerics_class(), "cuda-emulated");
}

TEST_F(CublasLtTest, IsRefusedByNameWhereThereIsNone) {
  setenv("TUTTI_CUBLASLT_LIBRARY", "/nowhere/libcublasLt.so", 1);
  EXPECT_TRUE(absl::IsUnavailable(Open().status()));
  EXPECT_TRUE(absl::StrContains(WhyNot(), kClass)) << WhyNot();
  EXPECT_TRUE(absl::StrContains(WhyNot(), "/nowhere/libcublasLt.so")) << WhyNot();
  EXPECT_TRUE(absl::StrContains(WhyNot(), "TUTTI_CUBLASLT_LIBRARY")) << WhyNot();
  Use("old_testing");
  EXPECT_TRUE(absl::StrContains(WhyNot(), "is cuBLASLt 11.8.0; 12.0.0 or newer")) << WhyNot();
  Use("broken_testing");
  EXPECT_TRUE(absl::StrContains(WhyNot(), "has no function cublasLtMatmul")) << WhyNot();
  Use("testing");
  Behave("no device");
  EXPECT_TRUE(absl::StrContains(WhyNot(), "starting: the library was not initialized")) << WhyNot();
  const auto other = OpenEmulatedBackend({.numerics_class = "cuda-sm90-cublas"}, 0);
  EXPECT_TRUE(absl::StrContains(std::string(other.status().message()), kClass)) << other.status();
}

TEST_F(CublasLtTest, ManyRowsAreNearTheReference) {
  const auto tested = Tested();
  const auto reference = Reference();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const int64_t k : {3, 32, 205}) {
      for (const int64_t n : {1, 16, 35}) {
        Matrix w = Matrix(n, k, dtype).Fill(static_cast<uint64_t>(k));
        Matrix in = Matrix(kMany, k).Fill(3, dtype == DType::kF32 ? DType::kBF16 : dtype);
        for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(k)}) {
          const auto packed = *tested->Pack(Source(w, leaves));
          const auto plain = *reference->Pack(Source(w, leaves));
          Matrix expected(kMany, n);
          reference->MatMul(in.view(), *plain, expected.view());
          EXPECT_TRUE(Near(Product(*tested, in, *packed), expected, 2e-6 * static_cast<double>(k)))
              << DTypeName(dtype) << " " << n << " x " << k << ", " << leaves.size();
        }
      }
    }
  }
}

// So that nothing here passes by computing as the exact class does.
TEST_F(CublasLtTest, BitsDependOnTheRowsBeside) {
  const auto tested = Tested();
  Matrix w = Matrix(35, 205, DType::kBF16).Fill(1);
  Matrix in = Matrix(kMany + 10, 205).Fill(2);
  const auto packed = *tested->Pack(Source(w));
  Matrix all = Product(*tested, in, *packed), fewer = Of(*tested, in, *packed, kMany);
  bool same = true;
  for (int64_t r = 0; r < kMany; ++r) same &= SameBits(all, r, fewer, r);
  EXPECT_FALSE(same);
}

TEST_F(CublasLtTest, FewRowsHaveTheBitsOfTheExactClass) {
  const auto tested = Tested();
  const auto exact = Exact();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    Matrix w = Matrix(35, 205, dtype).Fill(1);
    Matrix in = Matrix(127, 205).Fill(2);
    for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(205)}) {
      const auto packed = *tested->Pack(Source(w, leaves));
      const auto other = *exact->Pack(Source(w, leaves));
      EXPECT_EQ(packed->bytes(), other->bytes());
      for (const int64_t rows : {1, 8, 16, 17, 127}) {
        Matrix a = Of(*tested, in, *packed, rows), b = Of(*exact, in, *other, rows);
        for (int64_t r = 0; r < rows; ++r) {
          ASSERT_TRUE(SameBits(a, r, b, r)) << DTypeName(dtype) << " " << rows << " row " << r;
        }
      }
    }
  }
}

TEST_F(CublasLtTest, RowsOfAWeightAreReadBack) {
  const auto tested = Tested();
  Matrix w = Matrix(35, 205, DType::kBF16).Fill(1);
  const auto packed = *tested->Pack(Source(w));
  const std::vector<int32_t> ids = {34, 0, 17};
  Matrix out(3, 205);
  tested->Embed(ids, *packed, out.view());
  for (size_t i = 0; i < ids.size(); ++i) {
    for (int64_t k = 0; k < 205; ++k) {
      ASSERT_EQ(out.at(static_cast<int64_t>(i), k), w.at(ids[i], k)) << i << " " << k;
    }
  }
}

// Numbers that f16 cannot hold, in some rows and beside others.
TEST_F(CublasLtTest, RowsBeyondF16AreScaled) {
  const auto tested = Tested();
  const auto reference = Reference();
  Matrix w = Matrix(20, 64, DType::kF16).Fill(1);
  Matrix in = Matrix(kMany, 64).Fill(3, DType::kF16);
  for (int64_t k = 0; k < 64; ++k) in.set(7, k, in.at(7, k) * 1048576.0f);
  for (const auto& leaves : {std::vector<int64_t>{}, EightLeaves(64)}) {
    const auto packed = *tested->Pack(Source(w, leaves));
    const auto plain = *reference->Pack(Source(w, leaves));
    Matrix expected(kMany, 20);
    reference->MatMul(in.view(), *plain, expected.view());
    Matrix out = Product(*tested, in, *packed);
    for (const int64_t row : {6, 7, 8}) {
      for (int64_t n = 0; n < 20; ++n) {
        const float e = expected.at(row, n);
        EXPECT_NEAR(out.at(row, n), e, 1e-4f * (row == 7 ? 1048576.0f * 8 : 8)) << row << " " << n;
      }
    }
  }
}

// Then the kernels for few rows take them, some after others.
TEST_F(CublasLtTest, WithoutAnAlgorithmManyRowsAreMultipliedAsFew) {
  Behave("no algorithm");
  const auto tested = Tested();
  const auto exact = Exact();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Matrix w = Matrix(35, 205, dtype).Fill(1);
    Matrix in = Matrix(260, 205).Fill(2);
    const auto packed = *tested->Pack(Source(w, EightLeaves(205)));
    const auto other = *exact->Pack(Source(w, EightLeaves(205)));
    Matrix a = Product(*tested, in, *packed), b = Product(*exact, in, *other);
    for (int64_t r = 0; r < 260; ++r) ASSERT_TRUE(SameBits(a, r, b, r)) << r;
  }
}

TEST_F(CublasLtTest, ItsWorkSpaceIsTakenBeforeMemoryIsOffered) {
  const int64_t before = EmulatedBytesInUse();
  const int64_t free = MakeEmulatedRuntime()->FreeBytes();
  {
    const auto tested = *Open();
    EXPECT_EQ(EmulatedBytesInUse() - before, kGpuCublasWorkSpaceBytes);
    EXPECT_EQ(free - tested->FreeDeviceBytes(), kGpuCublasWorkSpaceBytes + kGpuCublasCodeBytes);
  }
  EXPECT_EQ(EmulatedBytesInUse(), before);
  EXPECT_LT(UsableGpuBytes(int64_t{8} << 30, true), UsableGpuBytes(int64_t{8} << 30));
}

TEST_F(CublasLtTest, AProductThatFailsEndsTheProcess) {
  const auto tested = Tested();
  Matrix w = Matrix(16, 32, DType::kBF16).Fill(1);
  Matrix in = Matrix(kMany, 32).Fill(2);
  const auto packed = *tested->Pack(Source(w));
  EXPECT_DEATH(
      {
        Behave("fails");
        Product(*tested, in, *packed);
      },
      "multiplying many rows: cuBLASLt, a product: the GPU program failed to execute");
}

// Every function that is called is there under its name. Without a GPU it cannot start.
TEST_F(CublasLtTest, TheRealLibraryHasAllFunctions) {
  unsetenv("TUTTI_CUBLASLT_LIBRARY");
  const auto library = OpenCublasLtLibrary("", 0, nullptr);
  if (absl::IsUnavailable(library.status())) GTEST_SKIP() << library.status();
  if (library.ok()) {
    EXPECT_GE((*library)->version(), kCublasLtVersionMin);
  } else {
    EXPECT_TRUE(absl::IsInternal(library.status())) << library.status();
    EXPECT_TRUE(absl::StrContains(std::string(library.status().message()), "cuBLASLt, starting: "))
        << library.status();
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
