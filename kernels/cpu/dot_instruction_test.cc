// The emulated bf16 dot against the instruction, bit for bit, where the machine has it; and against
// its definition.
#include <cmath>

#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"
#include "kernels/tunable.h"

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

// The backend "avx512bf16" with every knob of a way to multiply set to the f32 instructions.
std::unique_ptr<Backend> ByF32() {
  auto backend = Tested("avx512bf16");
  auto* const tunable = backend->tunable();
  for (size_t k = 0; k < tunable->knobs().size(); ++k) {
    if (tunable->knobs()[k].name.starts_with("f32-")) tunable->SetKnob(k, 1);
  }
  return backend;
}

TEST(DotInstructionTest, F32InstructionsThatFlushAreTheInstruction) {
  if (!cpu::MachineFeatures().avx512bf16) GTEST_SKIP() << "this machine has no avx512bf16";
  for (const int64_t rows : {1, 3, 7}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Matrix w(64, 64, DType::kBF16), in(rows, 64);
      FillWild(w, 2 * seed);
      FillWild(in, 2 * seed + 1);
      Matrix real = ProductOf(*Tested("avx512bf16"), in, w);
      Matrix by_f32 = ProductOf(*ByF32(), in, w);
      for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(SameBits(real, r, by_f32, r)) << seed;
    }
  }
}

// A sum below the least normal number that rounds to it where the exponent has no end is zero:
// whether it is tiny is asked before it loses the digits that a denormal has not.
TEST(DotInstructionTest, WhatRoundsUpToTheLeastNormalIsFlushed) {
  Matrix w(64, 4, DType::kBF16), in(1, 4);
  w.FillWith(0), in.FillWith(0);
  in.set(0, 1, 0x1p-63f);
  in.set(0, 3, -0x1p-75f);
  for (int64_t n = 0; n < 64; ++n) {
    w.set(n, 1, 0x1p-63f);
    w.set(n, 3, (1 + static_cast<float>(n) / 64) * 0x1p-76f);
  }
  std::vector<std::pair<std::string, Matrix>> results;
  results.emplace_back("emulated", ProductOf(*Tested("emulated-avx512bf16"), in, w));
  if (cpu::MachineFeatures().avx512bf16) {
    results.emplace_back("instruction", ProductOf(*Tested("avx512bf16"), in, w));
    results.emplace_back("by f32", ProductOf(*ByF32(), in, w));
  }
  for (const auto& [name, result] : results) {
    for (int64_t n = 0; n < 64; ++n) {
      // 2^-126 less 2^-151 to 2^-150: the nearest number of 24 digits is 2^-126 itself only if the
      // difference is at most a quarter of a denormal's last digit.
      EXPECT_EQ(result.at(0, n), n == 0 ? 0x1p-126f : 0.0f) << name << " " << n;
    }
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
