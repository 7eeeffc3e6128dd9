#include "quant/quant_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files_testing.h"
#include "kernels/float_formats.h"
#include "kernels/row_integers.h"
#include "quant/tensors_testing.h"

namespace tutti::quant {
namespace {

using model::Method;
using model::PackedFormat;
using model::QuantConfig;
using model::StoredType;
using nlohmann::json;
using testing::HasSubstr;

// 8 outputs of 16 inputs in two groups: all codes 9, all zero points the middle, all scales 1.
Made Gptq() {
  Made made;
  made.Add<uint32_t>("x.qweight", StoredType::kI32, {2, 8}, std::vector<uint32_t>(16, 0x99999999));
  made.Add<uint32_t>("x.qzeros", StoredType::kI32, {2, 1}, {0x77777777, 0x77777777});
  made.Add<uint16_t>("x.scales", StoredType::kF16, {2, 8}, std::vector<uint16_t>(16, 0x3C00));
  return made;
}
constexpr QuantConfig kGptq = {.bits = 4, .group_size = 8, .zeros_less_one = true};

std::string Said(const Made& made, const QuantConfig& config = kGptq) {
  const auto matrix = ReadQuantMatrix(made, "x", config);
  return matrix.ok() ? "read" : std::string(matrix.status().message());
}

TEST(QuantReaderTest, CodesLessZerosTimesScales) {
  const auto matrix = ReadQuantMatrix(Gptq(), "x", kGptq);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  std::vector<float> row(16);
  matrix->Dequantise(7, row.data());
  EXPECT_EQ(row, std::vector<float>(16, 1.0f));
  const Made made = Gptq();
  const auto find = [&](const std::string& name) { return made.Find(name); };
  EXPECT_TRUE(model::IsQuantised(find, "x"));
  EXPECT_FALSE(model::IsQuantised(find, "y"));
}

TEST(QuantReaderTest, RefusesWithTensorAndReason) {
  Made made = Gptq();
  made.Add<uint32_t>("x.qzeros", StoredType::kI32, {2, 1}, {0x88888888, 0x88888888});
  EXPECT_THAT(Said(made), HasSubstr("zero point 9, a symmetric checkpoint has 8"));
  QuantConfig second = kGptq;
  second.zeros_less_one = false;
  EXPECT_EQ(Said(made, second), "read") << "as GPTQ v2 has them";
  for (const char* part : {"qweight", "qzeros", "scales"}) {
    made = Gptq();
    made.Remove(std::string("x.") + part);
    EXPECT_THAT(Said(made), HasSubstr(std::string("x.") + part)) << part;
  }
  made = Gptq();
  made.Add<uint16_t>("x.scales", StoredType::kF16, {8}, std::vector<uint16_t>(8, 0x3C00));
  EXPECT_THAT(Said(made), HasSubstr("\"x.scales\": has shape [8], expected 16 elements"));
  for (const uint16_t bad : {0x0000, 0x7C00, 0x7E00}) {
    made.Add<uint16_t>("x.scales", StoredType::kF16, {2, 8}, std::vector<uint16_t>(16, bad));
    EXPECT_THAT(Said(made), HasSubstr("\"x.scales\": element 0 is")) << bad;
  }
  made = Gptq();
  made.Add<uint16_t>("x.qzeros", StoredType::kF16, {2, 1}, {0, 0});
  EXPECT_THAT(Said(made), HasSubstr("has dtype F16, expected I32"));
  QuantConfig odd = kGptq;
  odd.group_size = 5;
  EXPECT_THAT(Said(Gptq(), odd), HasSubstr("16 inputs, which groups of 5 do not divide"));
}

TEST(QuantReaderTest, GroupsInAnyOrderMustBeEven) {
  Made made = Gptq();
  std::vector<int32_t> groups = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  made.Add<int32_t>("x.g_idx", StoredType::kI32, {16}, groups);
  EXPECT_THAT(Said(made), HasSubstr("element 0 is group 1, expected 0: config.json says no desc"));
  QuantConfig any = kGptq;
  any.any_order = true;
  EXPECT_EQ(Said(made, any), "read");
  groups[1] = 1;
  made.Add<int32_t>("x.g_idx", StoredType::kI32, {16}, groups);
  EXPECT_THAT(Said(made, any), HasSubstr("group 0 has 7 inputs, others have 8"));
  for (const int32_t outside : {2, -1, 1 << 30}) {
    groups[1] = outside;
    made.Add<int32_t>("x.g_idx", StoredType::kI32, {16}, groups);
    EXPECT_THAT(Said(made, any), HasSubstr("\"x.g_idx\": element 1 is group"));
  }
}

TEST(QuantReaderTest, Fp8) {
  const QuantConfig blocks = {.method = Method::kFp8, .block_rows = 2, .block_columns = 2};
  Made made;
  made.Add<uint8_t>("x.weight", StoredType::kF8E4M3, {3, 3}, std::vector<uint8_t>(9, 0x38));
  made.Add<float>("x.weight_scale_inv", StoredType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto matrix = ReadQuantMatrix(made, "x", blocks);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  std::vector<float> row(3);
  matrix->Dequantise(2, row.data());
  EXPECT_EQ(row, (std::vector<float>{3, 3, 4})) << "the last block is cut";
  // As U8, exponents of powers of two.
  made.Add<uint8_t>("x.weight_scale_inv", StoredType::kU8, {2, 2}, {127, 128, 126, 127});
  EXPECT_EQ(Said(made, blocks), "read");
  made.Add<float>("x.weight_scale_inv", StoredType::kF32, {2, 1}, {1, 2});
  EXPECT_THAT(Said(made, blocks), HasSubstr("which is not blocks of [2, 2] of [3, 3]"));
  made.Add<float>("x.weight_scale_inv", StoredType::kF32, {2, 2}, {1, 2, 3, 4});
  made.Add<uint8_t>("x.weight", StoredType::kF8E4M3, {3, 3},
                    {0x38, 0x38, 0x38, 0x38, 0x38, 0xFF, 0x38, 0x38, 0x38});
  EXPECT_THAT(Said(made, blocks), HasSubstr("\"x.weight\": element [1, 2] is not a number"));
}

TEST(QuantReaderTest, IntegersHaveAScaleForEachOutputOrOneForAll) {
  const QuantConfig integers = {
      .method = Method::kCompressedTensors, .bits = 8, .packed = PackedFormat::kInt};
  Made made;
  made.Add<int8_t>("x.weight", StoredType::kI8, {3, 2}, {1, -1, 2, -2, 3, -3});
  const auto last_row = [&](std::vector<int64_t> shape, const std::vector<float>& scales) {
    made.Add<float>("x.weight_scale", StoredType::kF32, std::move(shape), scales);
    const auto matrix = ReadQuantMatrix(made, "x", integers);
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    std::vector<float> row(2);
    if (matrix.ok()) matrix->Dequantise(2, row.data());
    return row;
  };
  EXPECT_EQ(last_row({3, 1}, {1, 2, 4}), (std::vector<float>{12, -12}));
  EXPECT_EQ(last_row({3}, {1, 2, 4}), (std::vector<float>{12, -12}));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>(), {1}, {1, 1}}) {
    EXPECT_EQ(last_row(shape, {5}), (std::vector<float>{15, -15})) << shape.size();
  }
  made.Add<float>("x.weight_scale", StoredType::kF32, {1, 2}, {1, 2});
  EXPECT_THAT(Said(made, integers), HasSubstr("\"x.weight_scale\": has shape [1, 2]"));
}

TEST(QuantReaderTest, FourBitFloats) {
  Made made;
  made.Add<uint8_t>("x.weight_packed", StoredType::kU8, {1, 16}, std::vector<uint8_t>(16, 0xA7));
  made.Add<uint8_t>("x.weight_scale", StoredType::kU8, {1, 1}, {128});
  const QuantConfig mx = {.method = Method::kCompressedTensors, .packed = PackedFormat::kMxfp4};
  const auto matrix = ReadQuantMatrix(made, "x", mx);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  std::vector<float> row(32);
  matrix->Dequantise(0, row.data());
  EXPECT_EQ(row[0], 12);
  EXPECT_EQ(row[31], -2);
  made.Add<uint8_t>("x.weight_scale", StoredType::kF8E4M3, {1, 2}, {0x38, 0x40});
  const QuantConfig nv = {.method = Method::kModelOpt, .packed = PackedFormat::kNvfp4};
  EXPECT_THAT(Said(made, nv), HasSubstr("\"x.weight_scale_2\": is missing"));
  made.Add<float>("x.weight_scale_2", StoredType::kF32, {}, {0.5f});
  const auto four = ReadQuantMatrix(made, "x", nv);
  ASSERT_TRUE(four.ok()) << four.status();
  four->Dequantise(0, row.data());
  EXPECT_EQ(row[16], 6) << "6 times 2 times 0.5";
  made.Add<float>("x.weight_scale_2", StoredType::kF32, {}, {-0.5f});
  EXPECT_THAT(Said(made, nv), HasSubstr("is -0.5, which is no scale"));
  made.Add<float>("x.weight_global_scale", StoredType::kF32, {}, {1e-42f});
  EXPECT_THAT(Said(made, nv), HasSubstr("too small to divide by"));
  made.Add<uint16_t>("x.weight_scale", StoredType::kF16, {1, 1}, {0x3C00});
  EXPECT_THAT(Said(made, mx), HasSubstr("not of powers of two"));
}

TEST(QuantReaderTest, InnerScalesAreNumbers) {
  const QuantConfig nv = {.method = Method::kCompressedTensors, .packed = PackedFormat::kNvfp4};
  Made made;
  made.Add<uint8_t>("x.weight_packed", StoredType::kU8, {2, 16}, std::vector<uint8_t>(32, 0x22));
  made.Add<float>("x.weight_global_scale", StoredType::kF32, {1}, {4});
  const auto with = [&](const std::vector<uint8_t>& scales) {
    made.Add<uint8_t>("x.weight_scale", StoredType::kF8E4M3, {2, 2}, scales);
    return Said(made, nv);
  };
  ASSERT_EQ(with({0x38, 0x40, 0x01, 0x7E}), "read");
  std::vector<float> row(32);
  const auto matrix = *ReadQuantMatrix(made, "x", nv);
  matrix.Dequantise(1, row.data());
  EXPECT_EQ(row[15], 0x1p-9f / 4) << "it divides";
  EXPECT_EQ(row[16], 448.f / 4);
  // As packers write it where weights are far smaller than the tensor's largest.
  EXPECT_EQ(with({0x38, 0x40, 0x00, 0x7E}), "read");
  for (const uint8_t bad : {0x7F, 0xFF, 0x80, 0xB8}) {
    EXPECT_THAT(with({0x38, 0x38, bad, 0x38}), HasSubstr("\"x.weight_scale\": element 2 is"));
  }
  for (const float bad : {0.f, -1.f, INFINITY, NAN}) {
    made.Add<float>("x.weight_global_scale", StoredType::kF32, {1}, {bad});
    EXPECT_THAT(with({0x38, 0x38, 0x38, 0x38}), HasSubstr("which is no scale")) << bad;
  }
  made.Add<float>("x.weight_global_scale", StoredType::kF32, {2}, {1, 1});
  EXPECT_THAT(with({0x38, 0x38, 0x38, 0x38}),
              HasSubstr("\"x.weight_global_scale\": has shape [2]"));
  made.Add<float>("x.weight_global_scale", StoredType::kF32, {1}, {4});
  made.Add<uint8_t>("x.weight_scale", StoredType::kF8E4M3, {2, 1}, {0x38, 0x38});
  EXPECT_THAT(Said(made, nv), HasSubstr("\"x.weight_scale\": has shape [2, 1], expected [2, 2]"));
  made.Add<uint8_t>("x.weight_scale", StoredType::kU8, {2, 2}, {127, 127, 127, 127});
  EXPECT_THAT(Said(made, nv), HasSubstr("\"x.weight_scale\": has dtype U8, expected F8_E4M3"));
  made.Remove("x.weight_scale");
  EXPECT_THAT(Said(made, nv), HasSubstr("\"x.weight_scale\": is missing"));
}

// ---- against files of the formats' own packers

// Every part that a rank may read is that of the whole.
void ExpectParts(const TensorSource& source, const QuantConfig& config, const QuantMatrix& whole,
                 const std::string& name) {
  const auto find = [&](const std::string& tensor) { return source.Find(tensor); };
  const auto matrix = model::FindQuantisedMatrix(find, "x", config, whole.out, whole.in);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  const std::pair<model::Range, model::Range> some[] = {
      {{0, whole.out}, {whole.in / 3, whole.in}},
      {{3, whole.out - 1}, {0, 37}},
      {{whole.out / 2, whole.out / 2 + 1}, {5, 6}},
      {{0, 0}, {0, whole.in}}};
  for (const auto& [rows, cols] : some) {
    const auto part = DecodePart(source, *matrix, config, rows, cols);
    ASSERT_TRUE(part.ok()) << part.status();
    std::vector<float> of_part(static_cast<size_t>(cols.size()));
    std::vector<float> of_whole(static_cast<size_t>(whole.in));
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      part->Dequantise(n - rows.begin, of_part.data());
      whole.Dequantise(n, of_whole.data());
      for (int64_t k = cols.begin; k < cols.end; ++k) {
        ASSERT_EQ(of_part[static_cast<size_t>(k - cols.begin)], of_whole[static_cast<size_t>(k)])
            << name << " " << n << ", " << k;
      }
    }
  }
}

TEST(QuantReaderTest, PartsWithInnerScalesAreThoseOfTheWhole) {
  const QuantConfig nv = {
      .method = Method::kModelOpt, .packed = PackedFormat::kNvfp4, .scale_type = DType::kF32};
  Made made;
  std::vector<uint8_t> codes, scales;
  for (int i = 0; i < 6 * 32; ++i) codes.push_back(static_cast<uint8_t>(37 * i));
  for (int i = 0; i < 6 * 4; ++i) scales.push_back(static_cast<uint8_t>(1 + 5 * i));
  made.Add<uint8_t>("x.weight", StoredType::kU8, {6, 32}, codes);
  made.Add<uint8_t>("x.weight_scale", StoredType::kF8E4M3, {6, 4}, scales);
  made.Add<float>("x.weight_scale_2", StoredType::kF32, {}, {0.3f});
  ExpectParts(made, nv, *ReadQuantMatrix(made, "x", nv), "inner scales");
}

std::string Sha256(const std::string& bytes) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash);
  std::string text;
  for (const unsigned char byte : hash) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// The configuration that a directory with such a matrix would have.
json ConfigOf(const json& about) {
  json config = about;
  config["quant_method"] = about["kind"];
  if (about["kind"] == "compressed-tensors") {
    config["config_groups"]["group_0"] = {{"targets", {"Linear"}}, {"weights", about["weights"]}};
  }
  return config;
}

TEST(QuantReaderTest, FixturesOfTheFormatsOwnPackers) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no quantised files";
  const std::string folder = TestData() + "/quant/";
  const json manifest = json::parse(std::ifstream(folder + "manifest.json"));
  int compared = 0;
  for (const auto& [name, about] : manifest.items()) {
    if (!about.contains("sha256_expected_f32")) continue;
    const auto configs = model::ParseQuantConfigs(ConfigOf(about), name);
    ASSERT_TRUE(configs.ok()) << configs.status();
    const model::QuantConfig& config = configs->front();
    const auto source = OpenTensors(folder + name + ".safetensors");
    ASSERT_TRUE(source.ok()) << source.status();
    const auto matrix = ReadQuantMatrix(**source, "x", config);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(matrix->out, about["out_features"]) << name;
    EXPECT_EQ(matrix->in, about["in_features"]) << name;
    std::string f32, bf16;
    std::vector<float> row(static_cast<size_t>(matrix->in));
    for (int64_t n = 0; n < matrix->out; ++n) {
      matrix->Dequantise(n, row.data());
      f32.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
      for (const float value : row) {
        const uint16_t rounded = kernels::F32ToBf16(value);
        bf16.append(reinterpret_cast<const char*>(&rounded), sizeof(rounded));
      }
    }
    EXPECT_EQ(Sha256(f32), about["sha256_expected_f32"]) << name;
    ExpectParts(**source, config, *matrix, name);
    if (about.contains("sha256_expected_bf16")) {
      EXPECT_EQ(Sha256(bf16), about["sha256_expected_bf16"]) << name;
    }
    ++compared;
  }
  EXPECT_GE(compared, 13);
}

// Integers of activations and their scales, of those who divide by the scale; who multiplies by its
// inverse finds another integer where the quotient is a tie.
TEST(QuantReaderTest, RoundedRowsAreThoseOfTheFixture) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no quantised files";
  const auto source = *OpenTensors(TestData() + "/quant/activation_quant.safetensors");
  const auto read = [&](const char* name) { return *source->Read(name); };
  const auto x = read("x"), scales = read("int8.scale"), q = read("int8.q_div"),
             of_inverse = read("int8.q_inv");
  constexpr int64_t kRows = 5, kIn = 384;
  int others = 0;
  ASSERT_EQ(x.size(), size_t{kRows * kIn * 2});
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<float> row;
    for (int64_t k = 0; k < kIn; ++k) {
      row.push_back(kernels::LoadAsF32(x.data(), DType::kBF16, r * kIn + k));
    }
    const float scale = kernels::RowScale(kernels::LargestOfRow(row.data(), kIn));
    EXPECT_EQ(scale, kernels::LoadAsF32(scales.data(), DType::kF32, r)) << r;
    std::vector<int16_t> found(row.size());
    kernels::RoundRow(row.data(), kIn, scale, found.data());
    for (int64_t k = 0; k < kIn; ++k) {
      ASSERT_EQ(found[static_cast<size_t>(k)],
                static_cast<int8_t>(q[static_cast<size_t>(r * kIn + k)]))
          << r << ", " << k;
      if (of_inverse[static_cast<size_t>(r * kIn + k)] == q[static_cast<size_t>(r * kIn + k)])
        continue;
      EXPECT_EQ(row[static_cast<size_t>(k)] * 127 / kernels::LargestOfRow(row.data(), kIn), -63.5f);
      ++others;
    }
  }
  EXPECT_EQ(others, 1);
}

}  // namespace
}  // namespace tutti::quant
