// Codes, zero points and scales of every layout, bit by bit where the layout says that they are: of
// whole matrices and of odd parts, by one thread and by several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "kernels/float_formats.h"
#include "quant/tensors_testing.h"

namespace tutti::quant {
namespace {

using model::Method;
using model::PackedFormat;
using model::QuantConfig;
using model::StoredType;

constexpr int64_t kOut = 208, kIn = 320, kGroups = 5;

template <typename Value>
std::vector<Value> Drawn(Random* random, int64_t count, uint32_t most = UINT32_MAX) {
  std::vector<Value> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<Value>(random->Bits() % (uint64_t{most} + 1)));
  }
  return values;
}

// A matrix of random bits, and what they are by the layout's definition.
struct Layout {
  std::string name;
  QuantConfig config;
  Made made;
  std::function<int(int64_t n, int64_t k)> code;
  std::function<int(int64_t n, int64_t g)> zero;  // none: no zero points
  std::vector<uint16_t> scales;                   // f16, [groups, out]; empty: not compared
};

int Bits(uint32_t word, int64_t at, int bits) {
  return static_cast<int>(word >> (bits * at) & ((1u << bits) - 1));
}

Layout ByInput(Method method, int bits, Random* random) {
  const bool awq = method == Method::kAwq;
  const int64_t per = 32 / bits;
  Layout layout{.name = (awq ? "awq " : "gptq ") + std::to_string(bits),
                .config = {.method = method, .bits = bits, .group_size = 64, .symmetric = false}};
  const auto words = Drawn<uint32_t>(random, kIn * kOut / per);
  const auto zeros = Drawn<uint32_t>(random, kGroups * kOut / per);
  layout.scales = Drawn<uint16_t>(random, kGroups * kOut, 0x7BFE);
  for (uint16_t& scale : layout.scales) ++scale;
  layout.made.Add(
      "x.qweight", StoredType::kI32,
      awq ? std::vector<int64_t>{kIn, kOut / per} : std::vector<int64_t>{kIn / per, kOut}, words);
  layout.made.Add("x.qzeros", StoredType::kI32, {kGroups, kOut / per}, zeros);
  layout.made.Add("x.scales", StoredType::kF16, {kGroups, kOut}, layout.scales);
  const auto place = [awq, per](int64_t n) {
    constexpr int kOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};
    return awq ? kOrder[n % per] : n % per;
  };
  layout.code = [=](int64_t n, int64_t k) {
    return awq ? Bits(words[static_cast<size_t>(k * (kOut / per) + n / per)], place(n), bits)
               : Bits(words[static_cast<size_t>(k / per * kOut + n)], k % per, bits);
  };
  layout.zero = [=](int64_t n, int64_t g) {
    return Bits(zeros[static_cast<size_t>(g * (kOut / per) + n / per)], place(n), bits);
  };
  return layout;
}

Layout Packed(int bits, Random* random) {
  const int64_t per = 32 / bits;
  Layout layout{.name = "packed " + std::to_string(bits),
                .config = {.method = Method::kCompressedTensors,
                           .bits = bits,
                           .group_size = 64,
                           .symmetric = false,
                           .packed = PackedFormat::kPacked}};
  const auto words = Drawn<uint32_t>(random, kOut * kIn / per);
  const auto zeros = Drawn<uint32_t>(random, kOut / per * kGroups);
  layout.made.Add("x.weight_packed", StoredType::kI32, {kOut, kIn / per}, words);
  layout.made.Add("x.weight_zero_point", StoredType::kI32, {kOut / per, kGroups}, zeros);
  layout.made.Add("x.weight_scale", StoredType::kBF16, {kOut, kGroups},
                  std::vector<uint16_t>(kOut * kGroups, 0x3F80));
  layout.made.Add<int64_t>("x.weight_shape", StoredType::kI64, {2}, {kOut, kIn});
  layout.code = [=](int64_t n, int64_t k) {
    return Bits(words[static_cast<size_t>(n * (kIn / per) + k / per)], k % per, bits);
  };
  layout.zero = [=](int64_t n, int64_t g) {
    return Bits(zeros[static_cast<size_t>(n / per * kGroups + g)], n % per, bits);
  };
  return layout;
}

Layout Bytes(PackedFormat packed, Random* random) {
  Layout layout{.name = packed == PackedFormat::kInt ? "integers" : "e4m3",
                .config = {.method = Method::kCompressedTensors, .bits = 8, .packed = packed}};
  auto bytes = Drawn<uint8_t>(random, kOut * kIn);
  const bool integers = packed == PackedFormat::kInt;
  for (uint8_t& byte : bytes) {
    if (!integers && (byte & 0x7F) == 0x7F) byte = 1;
  }
  layout.made.Add("x.weight", integers ? StoredType::kI8 : StoredType::kF8E4M3, {kOut, kIn}, bytes);
  layout.made.Add("x.weight_scale", StoredType::kF32, {kOut, 1}, std::vector<float>(kOut, 0.5f));
  layout.code = [=](int64_t n, int64_t k) {
    const uint8_t byte = bytes[static_cast<size_t>(n * kIn + k)];
    return integers ? static_cast<int8_t>(byte) + 128 : byte;
  };
  return layout;
}

Layout Fours(Random* random) {
  Layout layout{.name = "e2m1",
                .config = {.method = Method::kCompressedTensors, .packed = PackedFormat::kMxfp4}};
  const auto bytes = Drawn<uint8_t>(random, kOut * kIn / 2);
  layout.made.Add("x.weight_packed", StoredType::kU8, {kOut, kIn / 2}, bytes);
  layout.made.Add("x.weight_scale", StoredType::kU8, {kOut, kIn / 32},
                  std::vector<uint8_t>(kOut * kIn / 32, 127));
  layout.code = [=](int64_t n, int64_t k) {
    return bytes[static_cast<size_t>((n * kIn + k) / 2)] >> (4 * (k % 2)) & 15;
  };
  return layout;
}

std::vector<Layout> Layouts() {
  Random random(42);
  std::vector<Layout> layouts;
  layouts.push_back(ByInput(Method::kGptq, 4, &random));
  layouts.push_back(ByInput(Method::kGptq, 8, &random));
  layouts.push_back(ByInput(Method::kAwq, 4, &random));
  layouts.push_back(Packed(4, &random));
  layouts.push_back(Packed(8, &random));
  layouts.push_back(Bytes(PackedFormat::kInt, &random));
  layouts.push_back(Bytes(PackedFormat::kFloat, &random));
  layouts.push_back(Fours(&random));
  return layouts;
}

void ExpectPart(const Layout& layout, const QuantMatrix& part, model::Range rows,
                model::Range cols) {
  ASSERT_EQ(part.out, rows.size());
  ASSERT_EQ(part.in, cols.size());
  EXPECT_EQ(part.zeros.empty(), layout.zero == nullptr || rows.size() == 0);
  for (int64_t n = 0; n < part.out; ++n) {
    for (int64_t k = 0; k < part.in; ++k) {
      ASSERT_EQ(part.codes[static_cast<size_t>(n * part.in + k)],
                layout.code(rows.begin + n, cols.begin + k))
          << layout.name << " " << rows.begin + n << ", " << cols.begin + k;
    }
    for (int64_t g = 0; g < part.groups; ++g) {
      const int64_t at = n * part.groups + g;
      if (layout.zero != nullptr) {
        ASSERT_EQ(part.zeros[static_cast<size_t>(at)], layout.zero(rows.begin + n, g))
            << layout.name;
      }
      if (layout.scales.empty()) continue;
      const auto in_file = static_cast<size_t>(g * kOut + rows.begin + n);
      ASSERT_EQ(kernels::LoadAsF32(part.scales.data(), part.scale_type, at),
                kernels::F16ToF32(layout.scales[in_file]))
          << layout.name;
    }
  }
}

TEST(CodeFormatsTest, CodesAreThoseThatTheLayoutDefines) {
  const std::pair<model::Range, model::Range> parts[] = {
      {{0, kOut}, {0, kIn}},   {{0, kOut}, {13, kIn - 3}}, {{3, kOut - 1}, {0, 37}},
      {{75, 203}, {128, 256}}, {{7, 8}, {5, 6}},           {{64, 200}, {63, 65}},
      {{0, 0}, {0, kIn}},      {{9, 77}, {31, 31}}};
  for (const Layout& layout : Layouts()) {
    const auto find = [&](const std::string& tensor) { return layout.made.Find(tensor); };
    const auto matrix = model::FindQuantisedMatrix(find, "x", layout.config, kOut, kIn);
    ASSERT_TRUE(matrix.ok()) << layout.name << ": " << matrix.status();
    SpareCodes spare;
    for (const auto& [rows, cols] : parts) {
      for (const int threads : {1, 3}) {
        auto part = DecodePart(layout.made, *matrix, layout.config, rows, cols, threads, &spare);
        ASSERT_TRUE(part.ok()) << layout.name << ": " << part.status();
        ExpectPart(layout, *part, rows, cols);
        spare.GiveBack(std::move(part->codes));
      }
    }
  }
}

TEST(CodeFormatsTest, OfSeveralFaultsTheFirstOutputsIsTold) {
  Random random(7);
  Layout layout = Bytes(PackedFormat::kFloat, &random);
  std::vector<uint8_t> bytes(kOut * kIn, 0x38);
  for (const int64_t output : {70, 71, 200}) bytes[static_cast<size_t>(output * kIn + 319)] = 0xFF;
  layout.made.Add("x.weight", StoredType::kF8E4M3, {kOut, kIn}, bytes);
  const auto find = [&](const std::string& tensor) { return layout.made.Find(tensor); };
  const auto matrix = model::FindQuantisedMatrix(find, "x", layout.config, kOut, kIn);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  for (const int threads : {1, 2, 3}) {
    const auto part = DecodePart(layout.made, *matrix, layout.config, {0, kOut}, {0, kIn}, threads);
    EXPECT_THAT(part.status().message(), testing::HasSubstr("element [70, 319] is not a number"));
  }
}

TEST(SpareCodesTest, MemoryIsUsedAgain) {
  SpareCodes spare;
  std::vector<uint8_t> large = spare.Take(1000), small = spare.Take(10);
  const uint8_t* const of_large = large.data();
  const uint8_t* const of_small = small.data();
  spare.GiveBack(std::move(large));
  spare.GiveBack(std::move(small));
  EXPECT_EQ(spare.Take(9).data(), of_small) << "the smallest that is large enough";
  EXPECT_EQ(spare.Take(500).data(), of_large);
  EXPECT_EQ(spare.Take(5).size(), 5);
}

TEST(SpareCodesTest, LargeAndSmallByTurnsKeepTheirMemory) {
  SpareCodes spare;
  const size_t large = size_t{22} << 20, small = size_t{4} << 20;
  std::vector<uint8_t> first = spare.Take(large);
  const uint8_t* const memory = first.data();
  spare.GiveBack(std::move(first));
  for (int layer = 0; layer < 3; ++layer) {
    for (const size_t size : {small, large}) {
      std::vector<uint8_t> codes = spare.Take(size);
      EXPECT_EQ(codes.data(), memory);
      spare.GiveBack(std::move(codes));
    }
  }
}

// A matrix that comes once must not hold its memory until all are loaded: the head comes first.
TEST(SpareCodesTest, WhatIsFarTooLargeIsNotKept) {
  SpareCodes spare;
  spare.GiveBack(spare.Take(size_t{1} << 30));
  size_t kept = 0;
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<uint8_t> one = spare.Take(size_t{1} << 20), two = spare.Take(size_t{1} << 20);
    kept = one.capacity() + two.capacity();
    spare.GiveBack(std::move(one));
    spare.GiveBack(std::move(two));
  }
  EXPECT_LE(kept, size_t{8} << 20);
}

}  // namespace
}  // namespace tutti::quant
