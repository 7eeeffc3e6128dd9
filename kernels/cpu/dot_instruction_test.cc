// The emulated bf16 dot against the instruction, bit for bit, where the machine has it; and against
// its definition.
#include <cmath>

#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

// A product of 64 columns whose every element is one chain: acc starts at w[0] * a[0] and so on.
Matrix ProductOf(Backend& backend, Matrix& in, Matrix& w) {
  const auto packed = *backend.Pack({{w.view()}, {}, "w"});
  Matrix out(in.rows(), w.rows());
  backend.MatMul(in.view(), *packed, out.view());
  return out;
}

// bf16 numbers of every size, denormals and zeros of both signs among them.
Matrix& FillWild(Matrix& m, uint64_t seed) {
  Random random(seed);
  return m.Each([&](float) {
    const auto sign = static_cast<uint16_t>(random.Between(0, 1) << 15);
    const auto exponent =
        static_cast<uint16_t>(random.Chance(0.3) ? random.Between(0, 3) : random.Between(60, 190));
    return Bf16ToF32(static_cast<uint16_t>(sign | exponent << 7 | random.Between(0, 127)));
  });
}

TEST(DotInstructionTest, EmulationIsTheInstruction) {
  if (!cpu::MachineFeatures().avx512bf16) GTEST_SKIP() << "this machine has no avx512bf16";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Matrix w(64, 64, DType::kBF16), in(7, 64);
    FillWild(w, 2 * seed);
    FillWild(in, 2 * seed + 1);
    Matrix real = ProductOf(*Tested("avx512bf16"), in, w);
    Matrix emulated = ProductOf(*Tested("emulated-avx512bf16"), in, w);
    for (int64_t r = 0; r < 7; ++r) ASSERT_TRUE(SameBits(real, r, emulated, r)) << seed;
  }
}

// The definition, one element at a time.
float Flush(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float DefinedDot(const Matrix& in, int64_t row, const Matrix& w, int64_t column) {
  float acc = 0;
  for (int64_t k = 0; k < w.cols(); k += 2) {
    for (int64_t i : {k + 1, k}) {
      const float a = Flush(in.at(row, i)), b = Flush(w.at(column, i));
      acc = Flush(std::fma(a, b, acc));
    }
  }
  return acc;
}

TEST(DotInstructionTest, EmulationIsTheDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Matrix w(64, 30, DType::kBF16), in(3, 30);
    FillWild(w, 2 * seed);
    FillWild(in, 2 * seed + 1);
    Matrix out = ProductOf(*Tested("emulated-avx512bf16"), in, w);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t n = 0; n < 64; ++n) {
        const float defined = DefinedDot(in, r, w, n);
        if (std::isnan(defined)) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(out.at(r, n)), std::bit_cast<uint32_t>(defined))
            << seed << " " << r << " " << n;
      }
    }
  }
}

TEST(DotInstructionTest, Avx512GivesTheBitsOfAvx2) {
  if (!cpu::MachineFeatures().avx512) GTEST_SKIP() << "this machine has no avx512";
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Matrix w = Matrix(200, 301, dtype).Fill(1), in = Matrix(33, 301).Fill(2);
    Matrix narrow = ProductOf(*Tested("avx2"), in, w), wide = ProductOf(*Tested("avx512"), in, w);
    for (int64_t r = 0; r < 33; ++r) ASSERT_TRUE(SameBits(narrow, r, wide, r));
  }
}

}  // namespace
}  // namespace tutti::kernels
