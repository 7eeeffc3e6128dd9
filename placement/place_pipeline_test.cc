#include "placement/place_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/random.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "placement/cluster_plan.h"
#include "placement/placement_modes.h"
#include "placement/placement_split.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The pace of a placement, from its own fields.
double PaceOfPlacement(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
                       const Placement& placement, const PlacementOptions& options) {
  StageCosts costs(model, options, kLargestLayer);
  std::vector<StageGroup> groups;
  Split split{.layers = Layers(placement), .blocks = placement.num_blocks};
  for (const StagePlacement& stage : placement.stages) {
    StageGroup& group = groups.emplace_back();
    for (const RankPlacement& rank : stage.ranks) group.push_back(rank.device_index);
  }
  return PaceOf(SlotsOf(groups, devices, &costs), split, options, model.max_position_embeddings);
}

// The highest pace that any split gives, by trying all of them; 0: none fits.
double BestByTrying(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
                    PlacementOptions options) {
  double best = 0;
  std::vector<int32_t> layers(devices.size() / options.num_ranks, 1);
  const std::function<void(size_t, int64_t)> split = [&](size_t stage, int64_t left) {
    if (stage + 1 == layers.size()) {
      layers[stage] = static_cast<int32_t>(left);
      options.layers = layers;
      const auto placement = PlacePipeline(model, devices, options);
      if (placement.ok())
        best = std::max(best, PaceOfPlacement(model, devices, *placement, options));
      return;
    }
    for (int64_t n = 1; left - n >= static_cast<int64_t>(layers.size() - stage - 1); ++n) {
      layers[stage] = static_cast<int32_t>(n);
      split(stage + 1, left - n);
    }
  };
  split(0, model.num_layers);
  return best;
}

TEST(PlacementTest, NoSplitIsFaster) {
  Random random(1);
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    const int64_t num_stages = random.Between(1, 4);
    const model::ModelConfig model =
        tests::TinyModel(random.Between(num_stages, 10), random.Between(50, 20000));
    PlacementOptions options = Small();
    options.num_ranks = static_cast<int32_t>(random.Between(1, 2));
    options.max_sequences = static_cast<int32_t>(random.Between(1, 64));
    options.kv_tokens_min = random.Between(0, 3000);
    std::vector<DeviceSpec> devices;
    const bool known = random.Between(0, 1) == 1;
    for (int64_t i = 0; i < num_stages * options.num_ranks; ++i) {
      devices.push_back({.name = "w", .memory_bytes = random.Between(300'000, 6'000'000)});
      // Nearly equal speeds would be taken for equal.
      const double scale = std::pow(3.0, static_cast<double>(i));
      if (known) devices.back().speed = {1e9 * scale, random.Between(1, 20) * 1e10 * scale};
      if (!known) devices.back().speed = kNominalSpeed;
    }
    const auto placement = PlacePipeline(model, devices, options);
    const double best = BestByTrying(model, devices, options);
    ASSERT_EQ(placement.ok(), best > 0) << "round " << round << placement.status();
    if (!placement.ok()) continue;
    ++fitting;
    EXPECT_NEAR(PaceOfPlacement(model, devices, *placement, options), best, best * 1e-9) << round;
    CheckPlacement(model, *placement, options);
    EXPECT_GE(placement->kv_tokens(), options.kv_tokens_min);
  }
  EXPECT_GT(fitting, 100);
}

TEST(PlacementTest, LayersFollowMemoryWhereSequencesNeedIt) {
  // Layers of 25 MB: a step costs the reading of them, with any number of sequences. So the
  // room for many is worth a slower step.
  model::ModelConfig model = tests::TinyModel(12, 100);
  model.hidden_size = 1024;
  model.intermediate_size = 4096;
  const std::vector<DeviceSpec> devices = Devices({200'000'000, kGiB});
  PlacementOptions options = Small();
  options.max_model_len = 1024;
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, options)), ElementsAre(6, 6)) << "for two";
  options.max_sequences = 256;
  const auto many = PlacePipeline(model, devices, options);
  EXPECT_LT(many->stages[0].num_layers, many->stages[1].num_layers);
}

TEST(PlacementTest, LayersFollowSpeed) {
  const model::ModelConfig model = tests::TinyModel(12, 100);
  std::vector<DeviceSpec> devices = Devices({kGiB, kGiB});
  devices[0].speed = {30e9, 300e9};
  devices[1].speed = {10e9, 100e9};
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, Small())), ElementsAre(9, 3));
  devices[1].speed = {16e9, 160e9};
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, Small())), ElementsAre(8, 4));
  devices[1].speed = {27e9, 270e9};
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, Small())), ElementsAre(6, 6))
      << "a difference that measurements of equal machines have too";
  devices[1].speed = {};
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, Small())), ElementsAre(6, 6))
      << "nothing is known of one";
}

TEST(PlacementTest, Ranks) {
  const model::ModelConfig model = tests::TinyModel(8, 1000);
  PlacementOptions options = Small();
  options.num_ranks = 2;
  const std::vector<DeviceSpec> four = Devices({kGiB, kGiB, kGiB, kGiB});
  const auto placement = PlacePipeline(model, four, options);
  ASSERT_TRUE(placement.ok()) << placement.status();
  ASSERT_EQ(placement->stages.size(), 2u);
  EXPECT_EQ(placement->stages[1].ranks[0].device, "w3");
  CheckPlacement(model, *placement, options);
  options.stage_ranks = {1, 2};
  const auto uneven = PlacePipeline(model, Devices({kGiB, kGiB, kGiB}), options);
  ASSERT_TRUE(uneven.ok()) << uneven.status();
  CheckPlacement(model, *uneven, options);
  EXPECT_EQ(uneven->stages[1].ranks.size(), 2u);
  const auto refusal = [&](std::vector<int32_t> ranks, size_t devices) {
    options.stage_ranks = std::move(ranks);
    return PlacePipeline(model, Devices(std::vector<int64_t>(devices, kGiB)), options)
        .status()
        .ToString();
  };
  EXPECT_THAT(refusal({1, 3}, 4), HasSubstr("must be 1, 2, 4 or 8; the nearest"));
  EXPECT_THAT(refusal({8}, 8),
              HasSubstr("num_attention_heads 4; the nearest that this model takes is 4"));
  EXPECT_THAT(refusal({2, 2}, 3), HasSubstr("3 devices for 2 stages, which take 4"));
  options.num_stages = 3;
  EXPECT_THAT(refusal({2, 2}, 4), HasSubstr("given for 2 stages, the pipeline has 3"));
}

// The layouts that fit and what each holds, to the byte, where layers differ in size and KV heads
// in copies.
TEST(PlacementTest, LayersWithAndWithoutExperts) {
  model::ModelConfig model = tests::TinyModel(9, 1000);
  model.architecture = "Qwen3MoeForCausalLM";
  model.num_experts = 6;
  model.experts_per_token = 2;
  model.expert_intermediate_size = 40;
  model.dense_layers = {0, 1, 4, 6};
  model.num_heads = 6;
  model.num_kv_heads = 3;
  PlacementOptions options = Small();
  for (const int32_t ranks : {1, 2, 4}) {
    options.num_ranks = ranks;
    const auto placement =
        PlacePipeline(model, Devices(std::vector<int64_t>(3 * ranks, kGiB)), options);
    ASSERT_TRUE(placement.ok()) << placement.status();
    EXPECT_EQ(placement->stages.size(), 3u);
    CheckPlacement(model, *placement, options);
  }
}

// The bytes of each device are counted by its own kind: a GPU pads and needs work space where a CPU
// does not.
TEST(PlacementTest, EveryKindOfDeviceIsCountedAsItHolds) {
  model::ModelConfig model = tests::TinyModel(8, 1000);
  model.intermediate_size = 120;  // leaves of 15 columns
  PlacementOptions options = Small();
  options.layers = {4, 4};
  std::vector<DeviceSpec> devices = Devices({kGiB, kGiB});
  devices[1].kind = DeviceKind::kCuda;
  const auto placement = PlacePipeline(model, devices, options);
  ASSERT_TRUE(placement.ok()) << placement.status();
  const model::StepSizes sizes{.max_batch_tokens = 32, .max_sequences = 2, .max_model_len = 4096};
  for (size_t i = 0; i < 2; ++i) {
    const RankPlacement& rank = placement->stages[i].ranks[0];
    const DeviceKind kind = devices[i].kind;
    EXPECT_EQ(rank.kind, kind);
    const model::StageShare share{static_cast<int64_t>(4 * i), 4, i == 0, i == 1};
    EXPECT_EQ(rank.weight_bytes,
              model::ComputeShardBytes(model, share, 1, 0, model::PackingOf(kind)).total());
    EXPECT_EQ(rank.kv_bytes,
              4 * placement->kv_tokens() * model::ResidentKvBytesPerToken(model, 1, kind));
    EXPECT_EQ(rank.activation_bytes, model::ActivationBytes(model, share, 1, 0, sizes, kind));
  }
  // Heads of 16 lie in 64.
  EXPECT_EQ(placement->stages[1].ranks[0].kv_bytes, 4 * placement->stages[0].ranks[0].kv_bytes);
  model.head_dim = 512;
  EXPECT_THAT(PlacePipeline(model, devices, options).status().ToString(),
              AllOf(HasSubstr("w2"), HasSubstr("heads of 512 dimensions")));
  EXPECT_TRUE(absl::IsUnimplemented(PlanCluster(model, devices, {}).status()));
}

TEST(PlacementTest, WithRoomForAllTheWorkIsEven) {
  // The limit of the KV room is reached by many splits. The head is read in every step, like layers
  // are; the embedding is not.
  model::ModelConfig model = tests::TinyModel(12, 100);
  PlacementOptions options = Small();
  options.max_model_len = 16;  // the cost of reading K/V is of no account
  options.kv_tokens_max = 1024;
  const std::vector<DeviceSpec> devices = Devices({kGiB, kGiB, kGiB});
  EXPECT_THAT(Layers(*PlacePipeline(model, devices, options)), ElementsAre(4, 4, 4));
  const int64_t layer = model::ComputeShardBytes(model, {0, 1, false, false}, 1, 0).total();
  model.vocab_size = 4 * layer / (model.hidden_size * 2) / 64 * 64;
  const auto placement = PlacePipeline(model, devices, options);
  EXPECT_THAT(Layers(*placement), ElementsAre(5, 5, 2)) << "a head as heavy as almost four layers";
  EXPECT_EQ(placement->num_blocks, 64);
}

TEST(PlacementTest, KvRoomStopsWhereNobodyCanUseMore) {
  const model::ModelConfig model = tests::TinyModel(2);
  PlacementOptions options = Small();
  const std::vector<DeviceSpec> devices = Devices({64 * kGiB});
  EXPECT_EQ(PlacePipeline(model, devices, options)->kv_tokens(), 2 * 4096);
  options.kv_tokens_max = 1000;
  EXPECT_EQ(PlacePipeline(model, devices, options)->num_blocks, 62) << "whole blocks";
  options.kv_tokens_max = 3;
  EXPECT_EQ(PlacePipeline(model, devices, options)->num_blocks, 1);
}

TEST(PlacementTest, IsTheSameEveryTime) {
  const model::ModelConfig model = tests::TinyModel(40, 5000);
  const std::vector<DeviceSpec> devices = Devices({5'000'000, 9'000'000, 7'000'000});
  const auto once = PlacePipeline(model, devices, Small());
  const auto again = PlacePipeline(model, devices, Small());
  ASSERT_TRUE(once.ok());
  EXPECT_EQ(Layers(*once), Layers(*again));
  EXPECT_EQ(once->num_blocks, again->num_blocks);
}

TEST(PlacementTest, Overrides) {
  const model::ModelConfig model = tests::TinyModel(10);
  PlacementOptions options = Small();
  const std::vector<DeviceSpec> devices = Devices({kGiB, kGiB});
  options.layers = {3, 7};
  const auto placement = PlacePipeline(model, devices, options);
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(Layers(*placement), ElementsAre(3, 7));
  CheckPlacement(model, *placement, options);
  const auto refusal = [&](std::vector<int32_t> layers) {
    options.layers = std::move(layers);
    return PlacePipeline(model, devices, options).status().ToString();
  };
  EXPECT_THAT(refusal({3, 6}), HasSubstr("has 9 layers, the model 10"));
  EXPECT_THAT(refusal({0, 10}), HasSubstr("gives stage 0 0 layers"));
  EXPECT_THAT(refusal({11, -1}), HasSubstr("gives stage 1 -1 layers"));
  EXPECT_THAT(refusal({10}), HasSubstr("has 1 stages, the pipeline 2"));
  options.layers = {9, 1};
  EXPECT_THAT(PlacePipeline(model, Devices({900'000, kGiB}), options).status().ToString(),
              HasSubstr("stage 0 (w1, 878.91 KiB) with 9 layers lacks "));
}

TEST(PlacementTest, CountsOfDevices) {
  const model::ModelConfig model = tests::TinyModel(3);
  EXPECT_TRUE(absl::IsInvalidArgument(PlacePipeline(model, {}, Small()).status()));
  EXPECT_THAT(PlacePipeline(model, Devices({kGiB, kGiB, kGiB, kGiB}), Small()).status().ToString(),
              HasSubstr("4 stages, but the model has only 3 layers"));
  PlacementOptions options = Small();
  options.num_stages = 2;
  EXPECT_EQ(PlacePipeline(model, Devices({kGiB, kGiB, kGiB}), options)->stages.size(), 2u);
  options.num_stages = 4;
  EXPECT_THAT(PlacePipeline(model, Devices({kGiB, kGiB}), options).status().ToString(),
              HasSubstr("2 devices for 4 stages"));
}

TEST(PlacementTest, NoMemoryAtAll) {
  const model::ModelConfig model = tests::TinyModel(3);
  EXPECT_TRUE(absl::IsResourceExhausted(PlacePipeline(model, Devices({0, -5}), Small()).status()));
}

TEST(PlacementTest, SmallestStage) {
  const model::ModelConfig model = tests::TinyModel(3);
  const int64_t least = SmallestStageBytes(model, Small());
  EXPECT_GT(least, 0);
  // The middle one of three stages fits exactly that, with one block.
  PlacementOptions options = Small();
  options.kv_tokens_max = 16;
  EXPECT_TRUE(PlacePipeline(model, Devices({kGiB, least, kGiB}), options).ok());
  EXPECT_FALSE(PlacePipeline(model, Devices({kGiB, least - 1, kGiB}), options).ok());
}

TEST(PlacementTest, ThousandLayersAreFast) {
  const model::ModelConfig model = tests::TinyModel(1000, 50'000);
  std::vector<int64_t> memory;
  for (int i = 0; i < 500; ++i) memory.push_back(20'000'000 + i * 10'000);
  const auto begin = std::chrono::steady_clock::now();
  const auto placement = PlacePipeline(model, Devices(memory), Small());
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  memory.assign(3, 1'000'000);
  EXPECT_FALSE(PlacePipeline(model, Devices(memory), Small()).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

class RealModelTest : public testing::Test {
 protected:
  static absl::StatusOr<model::ModelConfig> Load(const std::string& name) {
    const char* const data = std::getenv("TUTTI_TESTDATA");
    if (data == nullptr) return absl::NotFoundError("TUTTI_TESTDATA is not set");
    return model::LoadModelConfig(std::string(data) + "/configs/" + name);
  }
};

TEST_F(RealModelTest, Qwen3) {
  const auto model = Load("Qwen3-8B");
  if (!model.ok()) GTEST_SKIP() << model.status();
  const PlacementOptions options;
  // 16.4 GB of weights in bf16 do not fit one device of 12 GiB.
  const auto refused = PlacePipeline(*model, Devices({12 * kGiB}), options);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("or 2 devices of 12.00 GiB"));
  const auto placement = PlacePipeline(*model, Devices({24 * kGiB, 24 * kGiB}), options);
  ASSERT_TRUE(placement.ok()) << placement.status();
  CheckPlacement(*model, *placement, options);
  int64_t weights = 0;
  for (const StagePlacement& stage : placement->stages) weights += stage.ranks[0].weight_bytes;
  // 8,190,735,360 parameters as the model's page counts them.
  EXPECT_NEAR(static_cast<double>(weights), 2.0 * 8'190'735'360, 0.001 * 2 * 8'190'735'360.0);
  // The KV cache has the rest: 144 KiB a token over both.
  EXPECT_GT(placement->kv_tokens(), 150'000);
}

TEST_F(RealModelTest, TiedHeadIsHeldByBothEnds) {
  const auto model = Load("Qwen3-0.6B");
  if (!model.ok()) GTEST_SKIP() << model.status();
  const PlacementOptions options{.kv_tokens_max = 65536};
  const auto one = PlacePipeline(*model, Devices({8 * kGiB}), options);
  const auto two = PlacePipeline(*model, Devices({4 * kGiB, 4 * kGiB}), options);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  const int64_t embedding = int64_t{151936} * 1024 * 2;
  EXPECT_EQ(two->stages[0].ranks[0].weight_bytes + two->stages[1].ranks[0].weight_bytes,
            one->stages[0].ranks[0].weight_bytes + embedding);
  CheckPlacement(*model, *two, options);
}

}  // namespace
}  // namespace tutti::placement
