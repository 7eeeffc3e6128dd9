#include "tools/random_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "model/checkpoint.h"
#include "model/checkpoint_testing.h"
#include "model/weight_map.h"

namespace tutti::tools {
namespace {

absl::Status Write(const model::ModelConfig& config, const RandomCheckpointOptions& options) {
  return WriteRandomCheckpoint(config, options, [](int64_t, int64_t) {});
}

std::map<std::string, std::string> Contents(const std::string& dir) {
  auto checkpoint = model::Checkpoint::Open(dir);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::map<std::string, std::string> contents;
  for (const model::TensorInfo& tensor : (*checkpoint)->tensors()) {
    const auto bytes = *(*checkpoint)->Read(tensor.name);
    contents[tensor.name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return contents;
}

float ToFloat(DType type, const std::byte* at) {
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at, 2);
  if (type == DType::kBF16) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(RandomCheckpoint, HoldsWhatTheModelNeeds) {
  for (bool tied : {false, true}) {
    for (int64_t shard_bytes : {0, 20000}) {
      SCOPED_TRACE(testing::Message() << "tied " << tied << ", shards of " << shard_bytes);
      TempDir dir;
      model::ModelConfig config = model::TinyConfig();
      config.tie_word_embeddings = tied;
      ASSERT_TRUE(Write(config, {.output_dir = dir.path(), .shard_bytes = shard_bytes}).ok());
      const auto checkpoint = model::Checkpoint::Open(dir.path());
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      EXPECT_TRUE(model::CheckCheckpoint(config, **checkpoint).ok())
          << model::CheckCheckpoint(config, **checkpoint);
      EXPECT_EQ((*checkpoint)->Find("lm_head.weight") == nullptr, tied);
      EXPECT_EQ((*checkpoint)->files().size() > 1, shard_bytes > 0);
    }
  }
}

TEST(RandomCheckpoint, ShardsChangeNothingAndSeedsEverything) {
  TempDir one, sharded, other;
  const model::ModelConfig config = model::TinyConfig();
  ASSERT_TRUE(Write(config, {.output_dir = one.path(), .seed = 1}).ok());
  ASSERT_TRUE(Write(config, {.output_dir = sharded.path(), .seed = 1, .shard_bytes = 9999}).ok());
  ASSERT_TRUE(Write(config, {.output_dir = other.path(), .seed = 2}).ok());
  const auto a = Contents(one.path()), b = Contents(sharded.path()), c = Contents(other.path());
  EXPECT_EQ(a, b);
  for (const auto& [name, bytes] : a) EXPECT_NE(bytes, c.at(name)) << name;
}

TEST(RandomCheckpoint, TheHeadAloneIsScaled) {
  TempDir flat, peaked;
  model::ModelConfig config = model::TinyConfig();
  config.tie_word_embeddings = false;
  ASSERT_TRUE(Write(config, {.output_dir = flat.path()}).ok());
  ASSERT_TRUE(Write(config, {.output_dir = peaked.path(), .head_scale = 4}).ok());
  const auto one = Contents(flat.path()), four = Contents(peaked.path());
  for (const auto& [name, bytes] : one) {
    const std::string& scaled = four.at(name);
    if (name != "lm_head.weight") {
      EXPECT_EQ(bytes, scaled) << name;
      continue;
    }
    const auto element = static_cast<size_t>(DTypeBytes(config.dtype));
    const auto value = [&](const std::string& of, size_t at) {
      return ToFloat(config.dtype, reinterpret_cast<const std::byte*>(of.data() + at));
    };
    for (size_t at = 0; at < bytes.size(); at += element) {
      const float wanted = 4 * value(bytes, at);
      ASSERT_NEAR(value(scaled, at), wanted, 0.01 * std::fabs(wanted));
    }
  }
}

TEST(RandomCheckpoint, AnotherLayoutReplacesTheOld) {
  TempDir dir;
  model::ModelConfig config = model::TinyConfig();
  ASSERT_TRUE(Write(config, {.output_dir = dir.path()}).ok());
  config.num_layers = 1;
  ASSERT_TRUE(Write(config, {.output_dir = dir.path(), .shard_bytes = 9999}).ok());
  EXPECT_EQ(Contents(dir.path()).count("model.layers.1.mlp.up_proj.weight"), 0);
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    EXPECT_NE(entry.path().extension(), ".partial");
  }
}

TEST(RandomCheckpoint, AFullOrMissingDirectoryIsAnError) {
  const absl::Status status = Write(model::TinyConfig(), {.output_dir = "/nonexistent-directory"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/nonexistent-directory"));
}

class FillRandomTest : public testing::TestWithParam<DType> {};

TEST_P(FillRandomTest, HasTheMomentsAsked) {
  constexpr int64_t kCount = 100'003;
  const DType type = GetParam();
  std::vector<std::byte> out(kCount * DTypeBytes(type) + 4, std::byte{0x5A});
  FillRandom(7, 0, kCount, type, 0, 0.02f * std::sqrt(3.0f), out.data());
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double value = ToFloat(type, out.data() + i * DTypeBytes(type));
    ASSERT_LE(std::fabs(value), 0.0348) << i;
    sum += value;
    squares += value * value;
  }
  // Four deviations of the mean of so many; the rounding of bf16 is unbiased.
  EXPECT_NEAR(sum / kCount, 0, 4 * 0.02 / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.02, 0.0002);
  EXPECT_EQ(out.back(), std::byte{0x5A}) << "wrote past the end";

  // Any piece of it is the same.
  std::vector<std::byte> piece(1000 * DTypeBytes(type));
  FillRandom(7, 4000, 1000, type, 0, 0.02f * std::sqrt(3.0f), piece.data());
  EXPECT_EQ(std::memcmp(piece.data(), out.data() + 4000 * DTypeBytes(type), piece.size()), 0);
}

TEST_P(FillRandomTest, KeepsAMeanOfOne) {
  constexpr int64_t kCount = 10'000;
  const DType type = GetParam();
  std::vector<std::byte> out(kCount * DTypeBytes(type));
  FillRandom(3, 0, kCount, type, 1, 0.1f, out.data());
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(ToFloat(type, out.data() + i * DTypeBytes(type)), 1, 0.1041) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FillRandomTest,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace tutti::tools
