#include "quant/quantise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/files_testing.h"
#include "base/random.h"
#include "kernels/float_formats.h"
#include "model/checkpoint.h"
#include "model/checkpoint_testing.h"
#include "model/config_json.h"
#include "model/quantise_choice.h"
#include "quant/make_codes.h"
#include "quant/quant_reader.h"
#include "quant/tensor_source.h"

namespace tutti::quant {
namespace {

using testing::HasSubstr;

// No weight is farther from its number than half a step, but for what bf16 rounds off the scale.
TEST(QuantiseTest, WeightsAreRoundedToTheNearestCode) {
  Random random(1);
  for (const char* scheme : {"int8", "int4-g32"}) {
    const model::QuantConfig config = *model::ParseQuantiseScheme(scheme);
    const int middle = 1 << (config.bits - 1);
    for (int i = 0; i < 50; ++i) {
      std::vector<float> weights;
      for (int k = 0; k < 32; ++k) {
        weights.push_back(static_cast<float>(random.Uniform() * 2 - 1) * std::exp2f(i - 25.f));
      }
      std::vector<uint8_t> codes(32);
      const float scale = QuantiseGroup(config, weights, codes.data());
      EXPECT_EQ(kernels::RoundTo(DType::kBF16, scale), scale);
      for (size_t k = 0; k < codes.size(); ++k) {
        ASSERT_LT(codes[k], 2 * middle);
        const float number = static_cast<float>(codes[k] - middle) * scale;
        ASSERT_LE(std::abs(number - weights[k]), scale * (0.5f + static_cast<float>(middle) / 128));
      }
    }
  }
  std::vector<uint8_t> codes(2);
  const std::vector<float> zeros = {0, -0.0f};
  EXPECT_EQ(QuantiseGroup(*model::ParseQuantiseScheme("int8"), zeros, codes.data()), 1);
  EXPECT_EQ(codes, (std::vector<uint8_t>{128, 128}));
}

class QuantiseFolderTest : public ::testing::Test {
 protected:
  QuantiseFolderTest() {
    config_ = model::TinyConfig();
    config_.tie_word_embeddings = true;
    config_.qk_norm = true;
    from_.Write("config.json", model::ConfigText(config_));
    from_.Write("tokenizer.json", "{}");
    const auto tensors = model::TensorsOf(config_);
    std::string file = model::MakeSafetensorsHeader(tensors);
    Random random(3);
    for (const model::TensorInfo& tensor : tensors) {
      if (tensor.name == kOne) one_ = file.size();
      for (int64_t i = 0; i < tensor.bytes / 2; ++i) {
        const uint16_t bits = kernels::F32ToBf16(static_cast<float>(random.Uniform() - 0.5));
        file.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      }
    }
    from_.Write("model.safetensors", file);
    file_ = std::move(file);
  }
  absl::Status Make(const model::QuantiseChoice& choice) {
    return QuantiseCheckpoint(from_.path(), to_.File("made"), choice, nullptr);
  }

  static constexpr char kOne[] = "model.layers.1.mlp.down_proj.weight";
  TempDir from_, to_;
  model::ModelConfig config_;
  std::string file_;
  size_t one_ = 0;  // where the bytes of kOne begin
};

TEST(MakeQuantMatrixTest, ThreadsChangeNoCodeAndNoError) {
  constexpr int64_t kOut = 1000, kIn = 96;
  model::QuantConfig config = *model::ParseQuantiseScheme("int4-g32");
  Random random(7);
  std::vector<float> weights;
  for (int64_t i = 0; i < kOut * kIn; ++i) {
    weights.push_back(static_cast<float>(random.Uniform() - 0.5));
  }
  const std::string name = "w";
  const PlainRows plain = {.tensor = &name,
                           .rows = kOut,
                           .cols = {0, kIn},
                           .in = kIn,
                           .type = DType::kF32,
                           .elements = reinterpret_cast<const std::byte*>(weights.data())};
  const auto alone = *MakeQuantMatrix(config, plain, {0, kIn});
  for (const int threads : {2, 7, 64}) {
    const auto made = *MakeQuantMatrix(config, plain, {0, kIn}, threads);
    EXPECT_EQ(made.codes, alone.codes) << threads;
    EXPECT_EQ(made.scales, alone.scales) << threads;
  }
  weights[900 * kIn] = weights[333 * kIn + 5] = std::nanf("");
  EXPECT_THAT(std::string(MakeQuantMatrix(config, plain, {0, kIn}, 7).status().message()),
              HasSubstr("at [333, 5]"));
}

// Their codes would be those of numbers, and nobody would hear of it.
TEST_F(QuantiseFolderTest, WeightsThatAreNoNumbersAreRefused) {
  for (const float wrong : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const uint16_t bits = kernels::F32ToBf16(wrong);
    std::memcpy(&file_[one_ + 2 * sizeof(bits)], &bits, sizeof(bits));
    from_.Write("model.safetensors", file_);
    std::filesystem::remove_all(to_.File("made"));
    const std::string said(Make({"int8"}).message());
    EXPECT_THAT(said, HasSubstr(kOne));
    EXPECT_THAT(said, HasSubstr("no number"));
    EXPECT_THAT(said, HasSubstr("at [0, 2]"));
  }
}

TEST_F(QuantiseFolderTest, MakesACheckpointThatLoads) {
  for (const bool head : {false, true}) {
    std::filesystem::remove_all(to_.File("made"));
    ASSERT_TRUE(Make({"int4-g8", head}).ok()) << Make({"int4-g8", head});
    const auto made = model::LoadModelConfig(to_.File("made"));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(made->is_quantised(model::Role::kDown, 0));
    EXPECT_EQ(made->is_quantised(model::Role::kHead, -1), head);
    EXPECT_EQ(made->tie_word_embeddings, !head);
    EXPECT_FALSE(made->is_quantised(model::Role::kEmbedding, -1));
    const auto checkpoint = model::Checkpoint::Open(to_.File("made"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_TRUE(model::CheckCheckpoint(*made, **checkpoint).ok())
        << model::CheckCheckpoint(*made, **checkpoint);
    EXPECT_TRUE(std::filesystem::exists(to_.File("made/tokenizer.json")));
    // The numbers are near those they were made of.
    const auto before = *OpenTensors(from_.path()), after = *OpenTensors(to_.File("made"));
    const std::string prefix = "model.layers.1.mlp.down_proj";
    const auto matrix = ReadQuantMatrix(*after, prefix, made->quant.said().front());
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    const auto bytes = *before->Read(prefix + ".weight");
    std::vector<float> row(static_cast<size_t>(matrix->in));
    for (int64_t n = 0; n < matrix->out; ++n) {
      matrix->Dequantise(n, row.data());
      for (int64_t k = 0; k < matrix->in; ++k) {
        ASSERT_NEAR(row[static_cast<size_t>(k)],
                    kernels::LoadAsF32(bytes.data(), DType::kBF16, n * matrix->in + k), 0.04);
      }
    }
  }
}

TEST_F(QuantiseFolderTest, Refusals) {
  EXPECT_THAT(std::string(Make({"int4-g16"}).message()), HasSubstr("groups of 16 do not divide"));
  ASSERT_TRUE(Make({"int8"}).ok());
  EXPECT_EQ(Make({"int8"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(
      std::string(
          QuantiseCheckpoint(to_.File("made"), to_.File("again"), {"int8"}, nullptr).message()),
      HasSubstr("is quantised already: compressed-tensors int8"));
}

}  // namespace
}  // namespace tutti::quant
