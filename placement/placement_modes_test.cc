#include "placement/placement_modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "model/partition.h"
#include "model/work_space.h"
#include "placement/place_pipeline.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PlacementTest, NearlyEqualSpeedsAreOneSpeed) {
  const auto speeds = [](std::vector<double> read) {
    std::vector<DeviceSpec> devices;
    for (const double speed : read) devices.push_back({.name = "", .speed = {speed, 1e12}});
    std::vector<double> compared;
    for (const DeviceSpec& device : WithComparableSpeeds(devices)) {
      compared.push_back(device.speed.read_bytes_per_second);
    }
    return compared;
  };
  EXPECT_THAT(speeds({110, 100, 114, 105}), ElementsAre(100, 100, 100, 100));
  EXPECT_THAT(speeds({300, 100, 310, 112, 200}), ElementsAre(300, 100, 300, 100, 200));
  EXPECT_THAT(speeds({100, 116}), ElementsAre(100, 116));
  EXPECT_THAT(speeds({100, 0}), ElementsAre(kNominalSpeed.read_bytes_per_second,
                                            kNominalSpeed.read_bytes_per_second));
  EXPECT_THAT(speeds({}), testing::IsEmpty());
}

class ModeTest : public testing::Test {
 protected:
  absl::StatusOr<Placement> Place(DeviceMapMode mode, const std::vector<int64_t>& memory) {
    PlacementOptions options = Small();
    options.mode = mode;
    return PlacePipeline(model_, Devices(memory), options);
  }
  // Bytes of the stages of the model without its layers, and of each layer.
  int64_t Fixed() { return WeightsOf(0) + model::WorkSpaceBytes(model_, true, 32, 2); }
  int64_t WeightsOf(int64_t layers) {
    return model::ComputeShardBytes(model_, {0, layers, true, true}, 1, 0).total();
  }
  int64_t Layer() {
    return WeightsOf(1) - WeightsOf(0) + 2 * 16 * model::ResidentKvBytesPerToken(model_);
  }

  model::ModelConfig model_ = tests::TinyModel(12, 2000);
};

TEST_F(ModeTest, BalancedIsEvenInWeights) {
  // Memory does not matter as long as all fits.
  const auto placement = Place(DeviceMapMode::kBalanced, {kGiB, 3 * kGiB});
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(Layers(*placement), ElementsAre(6, 6)) << "both ends hold the tied matrix";
  const auto tight = Place(DeviceMapMode::kBalanced, {Fixed() + 3 * Layer(), kGiB});
  EXPECT_THAT(Layers(*tight), ElementsAre(3, 9));
}

TEST_F(ModeTest, SequentialFillsOneAfterTheOther) {
  const auto one = Place(DeviceMapMode::kSequential, {kGiB, kGiB, kGiB});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(Layers(*one), ElementsAre(12)) << "the first holds everything";
  const auto two = Place(DeviceMapMode::kSequential, {Fixed() + 7 * Layer(), kGiB, kGiB});
  EXPECT_EQ(two->stages.size(), 2u);
  EXPECT_GE(two->stages[0].num_layers, 7);
  EXPECT_LE(two->stages[0].ranks[0].peak_bytes(), two->stages[0].ranks[0].budget_bytes);
}

TEST_F(ModeTest, BalancedLow0LeavesTheFirstAlone) {
  const auto spare = Place(DeviceMapMode::kBalancedLow0, {kGiB, kGiB, kGiB});
  ASSERT_TRUE(spare.ok()) << spare.status();
  ASSERT_EQ(spare->stages.size(), 2u);
  EXPECT_EQ(spare->stages[0].ranks[0].device, "w2");
  EXPECT_THAT(Layers(*spare), ElementsAre(6, 6));
  const int64_t small = Fixed() + 5 * Layer();
  const auto needed = Place(DeviceMapMode::kBalancedLow0, {kGiB, small, small});
  ASSERT_TRUE(needed.ok()) << needed.status();
  ASSERT_EQ(needed->stages.size(), 3u);
  EXPECT_LT(needed->stages[0].num_layers, needed->stages[1].num_layers);
  EXPECT_EQ(Place(DeviceMapMode::kBalancedLow0, {kGiB})->stages.size(), 1u);
}

TEST_F(ModeTest, WhatDoesNotFitIsRefusedInEveryMode) {
  for (const DeviceMapMode mode : {DeviceMapMode::kAuto, DeviceMapMode::kBalanced,
                                   DeviceMapMode::kBalancedLow0, DeviceMapMode::kSequential}) {
    const auto refused = Place(mode, {300'000, 300'000}).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("What would fit: 2 devices of "));
  }
}

}  // namespace
}  // namespace tutti::placement
