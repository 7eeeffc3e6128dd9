#include "placement/placement_refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/random.h"
#include "placement/place_pipeline.h"
#include "placement/placement_split.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::HasSubstr;

TEST(PlacementTest, ARankThatLacksMemoryIsNamed) {
  const model::ModelConfig model = tests::TinyModel(8, 1000);
  PlacementOptions options = Small();
  options.num_ranks = 2;
  const auto refused = PlacePipeline(model, Devices({kGiB, kGiB, kGiB, 100'000}), options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.ToString(), HasSubstr("stage 1 rank 1 (w4, 97.66 KiB) lacks "));
}

TEST(PlacementTest, WhatWouldFitAWholeGpuCountsWhatCudaTakes) {
  const model::ModelConfig model = tests::TinyModel(8, 1000);
  DeviceSpec gpu{.name = "device 0", .memory_bytes = kGiB, .kind = DeviceKind::kCuda};
  gpu.whole_gpu = true;
  PlacementOptions options = Small();
  options.kv_tokens_min = 8000;  // 256 bytes padded to 512 for each of 8 layers
  ASSERT_TRUE(PlacePipeline(model, {gpu}, options).ok());
  const auto lacks = [&](int64_t memory) {
    gpu.memory_bytes = memory;
    return PlacePipeline(model, {gpu}, options).status();
  };
  const int64_t enough = Largest(0, kGiB, [&](int64_t memory) { return !lacks(memory).ok(); }) + 1;
  EXPECT_GT(enough, kGiB * 3 / 4) << "more than the context";
  const std::string refused = lacks(enough - (int64_t{10} << 20)).ToString();
  EXPECT_THAT(refused, HasSubstr("What would fit: 1 device of " + SizeRoundedUp(enough)));
  options.layers = {8};
  EXPECT_THAT(lacks(enough - (int64_t{10} << 20)).ToString(),
              HasSubstr("What would fit: a device of " + SizeRoundedUp(enough)));
}

TEST(PlacementTest, RefusalNamesTheLackAndWhatWouldFit) {
  const model::ModelConfig model = tests::TinyModel(20, 1000);
  const PlacementOptions options = Small();
  const auto refused = PlacePipeline(model, Devices({600'000, 500'000}), options);
  ASSERT_TRUE(absl::IsResourceExhausted(refused.status()));
  const std::string text(refused.status().message());
  EXPECT_THAT(text, HasSubstr("of 20 layers"));
  EXPECT_THAT(text, HasSubstr("stage 1 (w2"));
  EXPECT_THAT(text, HasSubstr("lacks "));
  EXPECT_THAT(text, HasSubstr("What would fit: 2 devices of "));
  EXPECT_THAT(text, HasSubstr(" devices of 585.94 KiB"));
}

// The size that the refusal promises fits, and none that is smaller.
TEST(PlacementTest, WhatWouldFitFits) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    const model::ModelConfig model =
        tests::TinyModel(random.Between(3, 30), random.Between(100, 5000));
    const PlacementOptions options = Small();
    const auto refused = PlacePipeline(model, Devices({100'000, 100'000}), options);
    ASSERT_FALSE(refused.ok());
    const std::string text(refused.status().message());
    const size_t at = text.find("What would fit: 2 devices of ") + 29;
    double value = std::strtod(text.c_str() + at, nullptr);
    const std::string unit = text.substr(text.find(' ', at) + 1, 3);
    const double scale = unit == "KiB" ? 1024.0 : 1048576.0;
    const auto enough = static_cast<int64_t>(value * scale);
    EXPECT_TRUE(PlacePipeline(model, Devices({enough, enough}), options).ok()) << text;
    const auto less = static_cast<int64_t>((value - 0.011) * scale);
    EXPECT_FALSE(PlacePipeline(model, Devices({less, less}), options).ok()) << text;
  }
}

}  // namespace
}  // namespace tutti::placement
