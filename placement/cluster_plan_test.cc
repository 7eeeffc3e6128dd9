#include "placement/cluster_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/random.h"
#include "placement/place_pipeline.h"
#include "placement/placement_prediction.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::HasSubstr;

std::vector<DeviceSpec> EqualDevices(size_t count, int64_t memory, DeviceSpeed speed = {}) {
  std::vector<DeviceSpec> devices;
  for (size_t i = 0; i < count; ++i) {
    devices.push_back(
        {.name = "device " + std::to_string(i), .memory_bytes = memory, .speed = speed});
  }
  return devices;
}

// 24 layers of 25 MB.
model::ModelConfig SmallModel() {
  model::ModelConfig model = tests::TinyModel(24, 32'000);
  model.hidden_size = 1024;
  model.intermediate_size = 4096;
  return model;
}

ClusterOptions Auto() {
  ClusterOptions options;
  options.placement.num_ranks = 0;
  return options;
}

// Every device at most once, every byte within its budget.
void CheckPlan(const ClusterPlan& plan, const std::vector<DeviceSpec>& devices) {
  std::set<int64_t> used;
  for (const Placement& pipeline : plan.pipelines) {
    for (const StagePlacement& stage : pipeline.stages) {
      for (const RankPlacement& rank : stage.ranks) {
        EXPECT_TRUE(used.insert(rank.device_index).second) << rank.device << " twice";
        EXPECT_EQ(rank.device, devices[rank.device_index].name);
        EXPECT_LE(rank.peak_bytes(), devices[rank.device_index].memory_bytes);
      }
    }
  }
  EXPECT_LE(static_cast<int64_t>(used.size()), plan.chosen.layout.devices());
}

TEST(ClusterPlanTest, WhatFitsADeviceIsServedByManyPipelines) {
  // Slow links make ranks and stages useless.
  ClusterOptions options = Auto();
  options.placement.link = {1e6, 10e-3};
  const std::vector<DeviceSpec> devices = EqualDevices(4, 4 * kGiB, kNominalSpeed);
  const auto plan = PlanCluster(SmallModel(), devices, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->chosen.layout, (Layout{1, 1, 4}));
  CheckPlan(*plan, devices);
  EXPECT_TRUE(plan->speeds_known);
  EXPECT_FALSE(plan->rejected.empty());
  for (const LayoutTried& one : plan->rejected) {
    EXPECT_LE(one.tokens_per_second, plan->chosen.tokens_per_second * 1.03);
  }
}

TEST(ClusterPlanTest, QuickLinksMakeRanks) {
  ClusterOptions options = Auto();
  options.placement.link = {400e9, 1e-6};
  options.num_pipelines = 1;
  const std::vector<DeviceSpec> devices = EqualDevices(4, 4 * kGiB, kNominalSpeed);
  const auto plan = PlanCluster(SmallModel(), devices, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->chosen.layout.ranks, 2) << "two KV heads: more ranks would hold them twice";
}

TEST(ClusterPlanTest, WhatFitsNoDeviceIsSplit) {
  const std::vector<DeviceSpec> devices = EqualDevices(5, 400'000'000);
  const auto plan = PlanCluster(SmallModel(), devices, Auto());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->chosen.layout.stages * plan->chosen.layout.ranks, 1);
  CheckPlan(*plan, devices);
  bool alone = false;
  for (const LayoutTried& one : plan->rejected) {
    if (one.layout.stages != 1 || one.layout.ranks != 1) continue;
    alone = true;
    EXPECT_FALSE(one.fits);
    EXPECT_GT(one.lacking_bytes, 0);
    EXPECT_THAT(one.lacking_device, HasSubstr("device"));
  }
  EXPECT_TRUE(alone);
}

TEST(ClusterPlanTest, SizesAskedForAreKept) {
  const std::vector<DeviceSpec> devices = EqualDevices(9, 4 * kGiB);
  ClusterOptions options = Auto();
  options.placement.num_stages = 2;
  options.placement.num_ranks = 2;
  options.num_pipelines = 2;
  const auto plan = PlanCluster(SmallModel(), devices, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->chosen.layout, (Layout{2, 2, 2}));
  CheckPlan(*plan, devices);
  options.num_pipelines = 3;
  EXPECT_THAT(PlanCluster(SmallModel(), devices, options).status().ToString(),
              HasSubstr("9 devices do not hold 3 pipelines of 2 stages of 2 ranks"));
  options.placement.num_ranks = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(PlanCluster(SmallModel(), devices, options).status()));
}

TEST(ClusterPlanTest, TheLargeAndQuickOnesServeFirst) {
  std::vector<DeviceSpec> devices = EqualDevices(4, 300'000'000, {1e11, 1e13});
  devices[3] = {.name = "device 3", .memory_bytes = 8 * kGiB, .speed = {2e12, 2e14}};
  ClusterOptions options = Auto();
  options.placement.num_stages = 1;
  options.placement.num_ranks = 1;
  const auto plan = PlanCluster(SmallModel(), devices, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->pipelines.at(0).stages.at(0).ranks.at(0).device, "device 3");
  CheckPlan(*plan, devices);
}

TEST(ClusterPlanTest, NothingFits) {
  const auto refused = PlanCluster(SmallModel(), EqualDevices(2, 50'000'000), Auto()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("What would fit: "));
  EXPECT_TRUE(absl::IsInvalidArgument(PlanCluster(SmallModel(), {}, Auto()).status()));
}

// Sanitizers, and code without optimisation, cost a factor of about ten.
#ifdef TUTTI_PARANOID
constexpr double kSecondsMax = 10;
#else
constexpr double kSecondsMax = 1;
#endif

TEST(ClusterPlanTest, TenThousandDevicesAndAThousandLayersWithinASecond) {
  Random random(3);
  const model::ModelConfig model = [] {
    model::ModelConfig large = SmallModel();
    large.num_layers = 1000;
    return large;
  }();
  for (const bool differ : {false, true}) {
    std::vector<DeviceSpec> devices = EqualDevices(10'000, kGiB, kNominalSpeed);
    for (DeviceSpec& device : devices) {
      if (!differ) break;
      device.memory_bytes = random.Between(kGiB / 4, 64 * kGiB);
      device.speed.read_bytes_per_second = static_cast<double>(random.Between(100, 4000)) * 1e9;
    }
    const std::clock_t begin = std::clock();  // of this thread alone, on however busy a machine
    const auto plan = PlanCluster(model, devices, Auto());
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_TRUE(plan.ok()) << plan.status();
    CheckPlan(*plan, devices);
    RecordProperty(differ ? "different_seconds" : "equal_seconds", std::to_string(seconds));
    std::cout << (differ ? "different" : "equal") << " devices: " << seconds << " s, "
              << DescribeLayout(plan->chosen.layout) << "\n";
    EXPECT_LT(seconds, kSecondsMax);
  }
}

TEST(PlacementPredictionTest, FollowsTheRoofline) {
  model::ModelConfig model = SmallModel();
  ClusterOptions options;
  options.placement.max_model_len = 64;
  options.placement.max_sequences = 1;
  const DeviceSpeed speed = {10e9, 1e15};  // reading decides
  const std::vector<DeviceSpec> devices = EqualDevices(1, 4 * kGiB, speed);
  const auto placement = PlacePipeline(model, devices, options.placement);
  ASSERT_TRUE(placement.ok()) << placement.status();
  const PlacementPrediction one =
      Predict(*placement, options.placement, model.max_position_embeddings);
  ASSERT_TRUE(one.known);
  // Weights but for the embedding, which the tied head reads.
  const double bytes = static_cast<double>(placement->stages[0].ranks[0].weight_bytes);
  EXPECT_NEAR(one.step_seconds, bytes / 10e9, 0.01 * bytes / 10e9);
  EXPECT_NEAR(one.tokens_per_second, 1 / one.step_seconds, 0.01 / one.step_seconds);
  EXPECT_FALSE(one.link_assumed);
  const auto blind = PlacePipeline(model, EqualDevices(2, 4 * kGiB), options.placement);
  const PlacementPrediction none =
      Predict(*blind, options.placement, model.max_position_embeddings);
  EXPECT_FALSE(none.known);
  EXPECT_EQ(none.step_seconds, 0);
  EXPECT_EQ(none.stages[0].hop_bytes_per_token, 2048) << "one hidden vector";
  EXPECT_EQ(none.stages[1].hop_bytes_per_token, 0);
}

TEST(PlacementPredictionTest, RanksSendWhatRecursiveDoublingTakes) {
  const model::ModelConfig model = SmallModel();
  PlacementOptions options;
  options.num_ranks = 4;
  const auto placement = PlacePipeline(model, EqualDevices(4, 4 * kGiB), options);
  ASSERT_TRUE(placement.ok()) << placement.status();
  const PlacementPrediction said = Predict(*placement, options, model.max_position_embeddings);
  EXPECT_EQ(said.stages[0].collective_bytes_per_token, 2 * 24 * 2 * 1024 * 4);
}

}  // namespace
}  // namespace tutti::placement
