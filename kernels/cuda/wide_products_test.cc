// Products of many rows by wgmma have the bits of those of few rows, and are used only where the
// device says so.
#include "kernels/cuda/wide_products.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/emulated/async_proxy.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/wgmma_probe.h"
#include "kernels/kernels_testing.h"

namespace tutti::kernels::cuda {
namespace {

// Of a device of this capability, on the emulated GPU.
WideProducts Choose(const std::string& id, int capability) {
  const auto runtime = MakeEmulatedRuntime();
  auto choice = ChooseWideProducts(
      {.id = id, .capability = capability, .multiprocessors = 3, .probe_blocks = kWgmmaProbeKinds},
      runtime.get());
  EXPECT_TRUE(choice.ok()) << choice.status();
  return *std::move(choice);
}

// Restores the tensor cores.
struct Faultless {
  ~Faultless() {
    emulated::SetWgmmaDiffers(false);
    emulated::SetWgmmaFault(nullptr);
  }
};

// Leaves of odd lengths and numbers of chunks; some are empty, the first and the last among them.
std::vector<std::vector<int64_t>> LeavesOf(int64_t in) {
  return {{},
          {0, in / 7, in / 7, in / 5, in / 3, in / 2, in / 2, in - in / 9, in},
          {0, 0, in, in, in},
          {0, in / 3, in}};
}

// Numbers whose sums round in every order differently.
Matrix Input(int64_t rows, int64_t cols, bool beyond_f16) {
  Matrix in = Matrix(rows, cols).Fill(2);
  for (int64_t r = 0; r < rows && beyond_f16; r += 3) {
    for (int64_t k = 0; k < cols / 2; ++k) in.set(r, k, in.at(r, k) * (r % 2 ? 1e6f : 3e5f));
  }
  return in;
}

Matrix Product(Backend& backend, const TensorView& in, const Weight& weight) {
  Matrix out(in.rows, weight.out_features(), DType::kF32, 3);
  backend.MatMul(in, weight, out.view());
  return out;
}

struct Shape {
  int64_t rows, outs, in;
};

// Some rows by themselves, at the edges of tiles among them, against all of them at once.
void ExpectOneVoice(Backend& backend, const Shape& shape, DType dtype, size_t leaf_maps = 2) {
  Matrix w = Matrix(shape.outs, shape.in, dtype).Fill(1);
  Matrix in = Input(shape.rows, shape.in, dtype == DType::kF16);
  std::vector<std::vector<int64_t>> maps = LeavesOf(shape.in);
  maps.resize(leaf_maps);
  for (const auto& leaves : maps) {
    const auto weight = *backend.Pack({{w.view()}, leaves, "w"});
    Matrix all = Product(backend, in.view(), *weight);
    for (const int64_t first : {int64_t{0}, shape.rows / 2 - 3, shape.rows - 7}) {
      Matrix few = Product(backend, in.view().Rows(first, 7), *weight);
      for (int64_t r = 0; r < 7; ++r) {
        ASSERT_TRUE(SameBits(few, r, all, first + r))
            << DTypeName(dtype) << " " << shape.rows << " x " << shape.outs << " x " << shape.in
            << ", " << leaves.size() << " leaf bounds, row " << first + r;
      }
    }
  }
}

TEST(WideProductsTest, RowsHaveTheBitsOfFew) {
  const auto backend = MakeStagedBackend(MakeEmulatedBackend());
  for (const Shape& shape : {Shape{127, 17, 130}, Shape{128, 17, 130}, Shape{255, 1, 97},
                             Shape{256, 16, 97}, Shape{300, 257, 33}, Shape{513, 15, 400}}) {
    ExpectOneVoice(*backend, shape, DType::kBF16);
  }
  // Many times round the ring.
  ExpectOneVoice(*backend, {200, 130, 1500}, DType::kBF16);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    ExpectOneVoice(*backend, {129, 33, 130}, dtype, 4);
    ExpectOneVoice(*backend, {257, 130, 65}, dtype);
  }
}

// A device with wgmma beside one without.
class WithAndWithoutWgmma {
 public:
  WithAndWithoutWgmma() : ring_(MakeStagedBackend(MakeEmulatedBackend())) {
    setenv("TUTTI_WGMMA", "off", 1);
    mma_ = MakeStagedBackend(MakeEmulatedBackend());
    unsetenv("TUTTI_WGMMA");
  }
  void Compare(const Shape& shape, DType dtype, const std::vector<int64_t>& leaves) {
    Matrix w = Matrix(shape.outs, shape.in, dtype).Fill(1);
    Matrix in = Input(shape.rows, shape.in, dtype == DType::kF16);
    Matrix got = Product(*ring_, in.view(), **ring_->Pack({{w.view()}, leaves, "w"}));
    Matrix wanted = Product(*mma_, in.view(), **mma_->Pack({{w.view()}, leaves, "w"}));
    for (int64_t r = 0; r < shape.rows; ++r) {
      ASSERT_TRUE(SameBits(got, r, wanted, r))
          << DTypeName(dtype) << " " << shape.rows << " x " << shape.outs << " x " << shape.in
          << ", " << leaves.size() << " leaf bounds, row " << r;
    }
  }

 private:
  std::unique_ptr<Backend> ring_, mma_;
};

// Up to kLeafSumRows rows have the bits that mma.sync gives them: every width of the instruction,
// rows that do not fill it, leaves without chunks and with fewer than a stage, outputs that do not
// fill a tile, a warpgroup or the last item, and more items than blocks.
TEST(WideProductsTest, FewRowsHaveTheBitsOfMmaSync) {
  WithAndWithoutWgmma devices;
  for (const int64_t rows : {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 96, 127}) {
    for (const auto& leaves : LeavesOf(rows % 2 == 0 ? 333 : 1030)) {
      devices.Compare({rows, 17, rows % 2 == 0 ? 333 : 1030}, DType::kBF16, leaves);
    }
    devices.Compare({rows, 33, 130}, DType::kF16, LeavesOf(130)[1]);
  }
  for (const int64_t rows : {1, 16, 24, 48, 100}) {
    for (const int64_t outs : {1, 16, 100, 700}) {
      devices.Compare({rows, outs, 200}, DType::kBF16, {});
      devices.Compare({rows, outs, 200}, DType::kBF16, {0, 96, 200});
    }
  }
}

// Several times round the ring of every shape of block: with few tiles and with many, of which the
// last item has fewer, and with one item after the other. A tile's weights fill a ring once.
TEST(WideProductsTest, RingsGoRound) {
  constexpr int64_t kRound = int64_t{kRingBytes} / (kTileOut * kChunkK * 2) * kChunkK;
  WithAndWithoutWgmma devices;
  for (const int64_t rows : {3, 12, 24, 40, 100}) {
    devices.Compare({rows, 20, 3 * kRound}, DType::kBF16, {});
    for (const int64_t outs : {700, 944}) {
      devices.Compare({rows, outs, kRound / 4}, DType::kBF16, {});
    }
  }
  devices.Compare({5, 700, kRound / 4 + 70}, DType::kF16, {});
}

// More rows than stay together, and more tiles than blocks.
TEST(WideProductsTest, GroupsOfRowsFollowEachOther) {
  const auto backend = MakeStagedBackend(MakeEmulatedBackend());
  Matrix w = Matrix(140, 40, DType::kBF16).FillIntegers(1);
  Matrix in = Matrix(kWideGroupRows + 70, 40).FillIntegers(2);
  for (const auto& leaves : {std::vector<int64_t>{}, {0, 5, 40}}) {
    Matrix all = Product(*backend, in.view(), **backend->Pack({{w.view()}, leaves, "w"}));
    for (int64_t r = 0; r < in.rows(); r += 61) {
      for (int64_t n = 0; n < 140; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < 40; ++k) sum += in.at(r, k) * w.at(n, k);
        ASSERT_EQ(all.at(r, n), sum) << r << ", " << n;
      }
    }
  }
}

// Infinities and NaN of a row stay in it, also where its neighbours are padding.
TEST(WideProductsTest, RowsDoNotSeeEachOther) {
  const auto backend = MakeStagedBackend(MakeEmulatedBackend());
  Matrix w = Matrix(70, 100, DType::kBF16).Fill(1);
  const auto weight = *backend->Pack({{w.view()}, {}, "w"});
  Matrix in = Matrix(200, 100).Fill(2);
  Matrix before = Product(*backend, in.view(), *weight);
  for (int64_t k = 0; k < 100; ++k) in.set(199, k, k % 2 ? INFINITY : NAN);
  // The rows of this product pad those of the next one.
  Product(*backend, in.view(), *weight);
  Matrix after = Product(*backend, in.view().Rows(0, 199), *weight);
  for (int64_t r = 0; r < 199; ++r) EXPECT_TRUE(SameBits(after, r, before, r)) << r;
  for (const int64_t rows : {1, 6, 14, 30, 62, 126}) {
    Product(*backend, in.view().Rows(199 - rows, rows + 1), *weight);
    Matrix few = Product(*backend, in.view().Rows(199 - rows, rows), *weight);
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_TRUE(SameBits(few, r, before, 199 - rows + r)) << rows << ", " << r;
    }
  }
}

TEST(WideProductsTest, AreUsedWhereTheDeviceGivesTheSameBits) {
  const Faultless after;
  EXPECT_THAT(MakeEmulatedBackend()->remark(),
              ::testing::StartsWith("many rows are multiplied by wgmma"));
  EXPECT_TRUE(Choose("used", 90).used);
  for (const int other : {80, 86, 89, 100, 120}) {
    const WideProducts choice = Choose("used", other);
    EXPECT_FALSE(choice.used);
    EXPECT_EQ(choice.remark, "");
  }
}

// A device on which left and right may not change places.
TEST(WideProductsTest, RowsMayAttendInAnotherWayThanTheyAreMultiplied) {
  const Faultless after;
  EXPECT_TRUE(Choose("both", 90).attends);
  WgmmaProbe probe = {.compared = 70, .sides_compared = 9, .sides_different = 2};
  const WideProducts choice = WideProductsOf(probe, 3);
  EXPECT_TRUE(choice.used);
  EXPECT_FALSE(choice.attends);
  EXPECT_EQ(choice.remark,
            "many rows are multiplied by wgmma, which gave the bits of mma.sync for 70 sums; they "
            "attend by mma.sync, as wgmma gave other bits for 2 of 9 sums with its sides changed");
  probe = {.compared = 70, .different = 1, .sides_compared = 9};
  EXPECT_FALSE(WideProductsOf(probe, 3).attends);
}

// A process makes many backends; a device that was asked is not asked again.
TEST(WideProductsTest, AnAnswerIsRememberedForItsDevice) {
  const Faultless after;
  const std::string used = Choose("first", 90).remark;
  emulated::SetWgmmaDiffers(true);
  EXPECT_EQ(Choose("first", 90).remark, used);
  EXPECT_FALSE(Choose("second", 90).used);
  emulated::SetWgmmaDiffers(false);
  EXPECT_FALSE(Choose("second", 90).used);
}

// One variable for whatever opens a backend; nothing is asked of the device then.
TEST(WideProductsTest, AVariableDoesWithoutThem) {
  const Faultless after;
  Choose("known", 90);
  emulated::SetWgmmaFault([](bool, int, int, float, float) -> float { std::abort(); });
  setenv("TUTTI_WGMMA", "off", 1);
  for (const char* const device : {"known", "not known"}) {
    const WideProducts choice = Choose(device, 90);
    EXPECT_FALSE(choice.used);
    EXPECT_EQ(choice.remark, "many rows are multiplied by mma.sync, as TUTTI_WGMMA says");
  }
  const auto backend = MakeStagedBackend(MakeEmulatedBackend());
  ExpectOneVoice(*backend, {130, 70, 300}, DType::kBF16);
  setenv("TUTTI_WGMMA", "0", 1);
  EXPECT_EQ(std::string(OpenEmulatedBackend({}, 0).status().message()),
            "TUTTI_WGMMA is \"0\": on, or off");
  unsetenv("TUTTI_WGMMA");
}

// A device whose wgmma adds in another order.
TEST(WideProductsTest, AreNotUsedWhereItDoesNot) {
  const Faultless after;
  const auto right = MakeStagedBackend(MakeEmulatedBackend());
  emulated::SetWgmmaDiffers(true);
  EXPECT_THAT(MakeEmulatedBackend()->remark(),
              ::testing::HasSubstr("by mma.sync, as wgmma gave other bits for"));
  const auto backend = MakeStagedBackend(MakeEmulatedBackend());
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    ExpectOneVoice(*backend, {130, 70, 300}, dtype);
  }
  // The backend that was made before would show it.
  Matrix w = Matrix(70, 300, DType::kBF16).Fill(1);
  Matrix in = Matrix(130, 300).Fill(2);
  Matrix wrong = Product(*right, in.view(), **right->Pack({{w.view()}, {}, "w"}));
  Matrix expected = Product(*backend, in.view(), **backend->Pack({{w.view()}, {}, "w"}));
  int different = 0;
  for (int64_t r = 0; r < 130; ++r) different += SameBits(wrong, r, expected, r) ? 0 : 1;
  EXPECT_GT(different, 100);
}

float Flip(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1u); }

// Tensor cores that differ in few places or for few numbers only.
TEST(WgmmaProbeTest, FindsWhatDiffersSomewhere) {
  const Faultless after;
  const auto runtime = MakeEmulatedRuntime();
  const auto different = [&] {
    const auto probe = ProbeWgmma(runtime.get(), kWgmmaProbeKinds);
    EXPECT_TRUE(probe.ok()) << probe.status();
    // Both types, with and without a sum before, 64 by 256 down to 8; with sides changed 64 by 64.
    EXPECT_EQ(probe->compared, int64_t{kWgmmaProbeKinds} * 4 * 64 * (256 + 128 + 64 + 32 + 16 + 8));
    EXPECT_EQ(probe->sides_compared, int64_t{kWgmmaProbeKinds} * 2 * 64 * 64);
    return probe->different;
  };
  EXPECT_EQ(different(), 0);
  const std::pair<const char*, emulated::WgmmaFault> faults[] = {
      {"the last place", [](bool, int row, int column, float,
                            float sum) { return row == 63 && column == 255 ? Flip(sum) : sum; }},
      {"the first place of f16",
       [](bool bf16, int row, int column, float, float sum) {
         return !bf16 && row == 0 && column == 0 ? Flip(sum) : sum;
       }},
      {"denormal sums",
       [](bool, int, int, float, float sum) {
         return std::fpclassify(sum) == FP_SUBNORMAL ? 0.0f : sum;
       }},
      {"large sums before",
       [](bool, int, int, float before, float sum) {
         return std::isfinite(sum) && std::abs(before) > 1e30f ? Flip(sum) : sum;
       }},
      {"infinities", [](bool, int, int, float,
                        float sum) { return std::isinf(sum) ? std::copysign(3.4e38f, sum) : sum; }},
      {"infinity instead of NaN",
       [](bool, int, int, float, float sum) { return std::isnan(sum) ? INFINITY : sum; }},
      {"sums that cancel", [](bool, int, int, float before,
                              float sum) { return sum == 0 && before != 0 ? 0x1p-20f : sum; }},
      {"nothing before",
       [](bool, int, int, float before, float sum) {
         return std::bit_cast<uint32_t>(before) == 0 ? Flip(sum) : sum;
       }},
      {"cut at 24 places", [](bool, int, int, float before, float sum) {
         return std::isnormal(sum) && std::abs(before) >= 0x1p13f * std::abs(sum - before) ? before
                                                                                           : sum;
       }}};
  for (const auto& [name, fault] : faults) {
    emulated::SetWgmmaFault(fault);
    EXPECT_GT(different(), 0) << name;
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
