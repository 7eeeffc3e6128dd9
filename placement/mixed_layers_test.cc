// Layers that differ in bytes, as where some are quantised and others not, or in other formats:
// each is counted with its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "model/layer_kinds.h"
#include "model/partition.h"
#include "placement/cluster_plan.h"
#include "placement/place_pipeline.h"
#include "placement/placement_refusal.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::ElementsAre;

model::QuantConfig Packed(int bits) {
  model::QuantConfig config;
  config.method = model::Method::kCompressedTensors;
  config.packed = model::PackedFormat::kPacked;
  config.bits = bits;
  config.group_size = 32;
  config.scale_type = DType::kBF16;
  return config;
}

// Layers of 4 bits but for `plain` ones, which are left as they were, and `eight` of 8 bits.
model::ModelConfig Mixed(int64_t layers, const std::vector<int64_t>& plain,
                         const std::vector<int64_t>& eight = {}) {
  model::ModelConfig model = tests::TinyModel(layers);
  model.quant = model::QuantFormats({Packed(4), Packed(8)}, 0);
  model.quant.Clear(layers);
  const auto has = [](const std::vector<int64_t>& all, int64_t layer) {
    return std::find(all.begin(), all.end(), layer) != all.end();
  };
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (has(plain, layer)) continue;
    const uint8_t number = model.quant.NumberOf(Packed(has(eight, layer) ? 8 : 4));
    for (const model::Role role : {model::Role::kQuery, model::Role::kKey, model::Role::kValue,
                                   model::Role::kAttentionOutput, model::Role::kGate,
                                   model::Role::kUp, model::Role::kDown}) {
      model.quant.Put(role, layer, number);
    }
  }
  return model;
}

int64_t LayersBytes(const model::ModelConfig& model, int64_t first, int64_t count) {
  return model::ComputeShardBytes(model, {.first_layer = first, .num_layers = count}, 1, 0).total();
}

// With the least KV room, so that memory decides.
PlacementOptions LittleKv() {
  PlacementOptions options = Small();
  options.kv_tokens_max = 32;
  return options;
}

TEST(MixedLayersTest, KindsAreOfFormats) {
  const model::ModelConfig model = Mixed(6, {0, 5}, {3});
  const std::vector<int64_t> kinds = model::KindsOfLayers(model);
  EXPECT_THAT(kinds, ElementsAre(0, 1, 3));
  EXPECT_THAT(model::KindOfEachLayer(model, kinds), ElementsAre(0, 1, 1, 2, 1, 0));
  EXPECT_GT(LayersBytes(model, 0, 1), LayersBytes(model, 3, 1));
  EXPECT_GT(LayersBytes(model, 3, 1), LayersBytes(model, 1, 1));
}

TEST(MixedLayersTest, ADeviceThatHoldsTheModelToTheByteIsEnough) {
  const model::ModelConfig model = Mixed(10, {0, 9}, {4});
  const PlacementOptions options = LittleKv();
  const auto roomy = PlacePipeline(model, Devices({kGiB}), options);
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  CheckPlacement(model, *roomy, options);
  const int64_t least = roomy->stages[0].ranks[0].peak_bytes();
  const auto tight = PlacePipeline(model, Devices({least}), options);
  ASSERT_TRUE(tight.ok()) << tight.status() << ", though the largest layer counted ten times is "
                          << 10 * LayersBytes(model, 0, 1) - LayersBytes(model, 0, 10) << " more";
  CheckPlacement(model, *tight, options);
  const auto refused = PlacePipeline(model, Devices({least - 1}), options);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(testing::HasSubstr("1 device holds 9 of 10 layers"),
                             testing::HasSubstr("lacks 1 bytes"),
                             testing::HasSubstr("1 device of " + SizeRoundedUp(least))));
  PlacementOptions given = options;
  given.layers = {10};
  EXPECT_TRUE(PlacePipeline(model, Devices({least}), given).ok());
  const auto lacks = PlacePipeline(model, Devices({least - 1}), given);
  EXPECT_THAT(std::string(lacks.status().message()), testing::HasSubstr("lacks 1 bytes"));
}

TEST(MixedLayersTest, LayersGivenAreCountedWhereTheyLie) {
  const model::ModelConfig model = Mixed(8, {6, 7});
  PlacementOptions options = LittleKv();
  options.layers = {6, 2};
  const auto placed = PlacePipeline(model, Devices({kGiB, kGiB}), options);
  ASSERT_TRUE(placed.ok()) << placed.status();
  CheckPlacement(model, *placed, options);
  std::vector<int64_t> memory;
  for (const StagePlacement& stage : placed->stages) {
    memory.push_back(stage.ranks[0].peak_bytes());
  }
  EXPECT_TRUE(PlacePipeline(model, Devices(memory), options).ok());
  for (int64_t& each : memory) {
    --each;
    EXPECT_FALSE(PlacePipeline(model, Devices(memory), options).ok());
    ++each;
  }
}

// Any memory: what is placed fits, and what does not fit one by one is refused.
TEST(MixedLayersTest, WhatIsPlacedFitsAndWhatFitsOneDeviceIsPlaced) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const int64_t layers = random.Between(2, 14);
    std::vector<int64_t> plain, eight;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const int64_t kind = random.Between(0, 3);
      if (kind == 0) plain.push_back(layer);
      if (kind == 1) eight.push_back(layer);
    }
    const model::ModelConfig model = Mixed(layers, plain, eight);
    PlacementOptions options = LittleKv();
    const auto stages = random.Between(1, std::min<int64_t>(3, layers));
    std::vector<int64_t> memory;
    for (int64_t i = 0; i < stages; ++i) memory.push_back(random.Between(150'000, 900'000));
    for (const DeviceMapMode mode : {DeviceMapMode::kAuto, DeviceMapMode::kBalanced,
                                     DeviceMapMode::kBalancedLow0, DeviceMapMode::kSequential}) {
      options.mode = mode;
      const auto placed = PlacePipeline(model, Devices(memory), options);
      if (placed.ok()) {
        CheckPlacement(model, *placed, options);
        continue;
      }
      const PlacementOptions one = LittleKv();
      EXPECT_FALSE(stages == 1 && PlacePipeline(model, Devices(memory), one).ok()) << round;
    }
  }
}

TEST(MixedLayersTest, LayoutsOfClustersAreCountedToo) {
  const model::ModelConfig model = Mixed(12, {0, 1, 10, 11});
  ClusterOptions options;
  options.placement = LittleKv();
  options.placement.num_ranks = 1;
  options.num_pipelines = 1;
  const auto whole = PlacePipeline(model, Devices({kGiB}), options.placement);
  ASSERT_TRUE(whole.ok());
  const int64_t least = whole->stages[0].ranks[0].peak_bytes();
  const auto plan = PlanCluster(model, Devices({least}), options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  CheckPlacement(model, plan->pipelines[0], options.placement);
  EXPECT_FALSE(PlanCluster(model, Devices({least - 1}), options).ok());
  const auto two = PlanCluster(model, Devices({least * 2 / 3, least * 2 / 3}), options);
  ASSERT_TRUE(two.ok()) << two.status();
  CheckPlacement(model, two->pipelines[0], options.placement);
}

}  // namespace
}  // namespace tutti::placement
