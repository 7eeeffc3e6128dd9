// What a draft model takes on the device that holds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/partition.h"
#include "model/work_space.h"
#include "placement/place_pipeline.h"
#include "placement/placement_testing.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The first rank of the last stage holds all of the draft model, to the byte, on any kind of
// device; the others hold nothing of it.
TEST(PlacementTest, TheDraftModelIsCountedWhereItLies) {
  const model::ModelConfig model = tests::TinyModel(8, 1000);
  auto draft = std::make_shared<model::ModelConfig>(tests::TinyModel(2, 1000));
  draft->max_position_embeddings = 512;  // less than a sequence may have
  const model::StageShare whole = model::WholeModel(*draft);
  PlacementOptions options = Small();
  options.num_ranks = 2;
  options.kv_tokens_max = 1024;
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    std::vector<DeviceSpec> devices = Devices({kGiB, kGiB, kGiB, kGiB});
    for (DeviceSpec& device : devices) device.kind = kind;
    options.draft = nullptr;
    const auto without = PlacePipeline(model, devices, options);
    options.draft = draft;
    const auto with = PlacePipeline(model, devices, options);
    ASSERT_TRUE(without.ok() && with.ok()) << with.status();
    ASSERT_EQ(Layers(*without), Layers(*with));
    ASSERT_EQ(without->num_blocks, with->num_blocks);
    const model::StepSizes sizes{
        .max_batch_tokens = 32, .max_sequences = 2, .max_model_len = 512, .block_size = 16};
    for (size_t stage = 0; stage < 2; ++stage) {
      for (size_t rank = 0; rank < 2; ++rank) {
        const RankPlacement& a = without->stages[stage].ranks[rank];
        const RankPlacement& b = with->stages[stage].ranks[rank];
        const bool holds = stage == 1 && rank == 0;
        const int64_t weights =
            model::ComputeShardBytes(*draft, whole, 1, 0, model::PackingOf(kind)).total();
        const int64_t kv =
            with->kv_tokens() * draft->num_layers * model::ResidentKvBytesPerToken(*draft, 1, kind);
        const int64_t work = model::ActivationBytes(*draft, whole, 1, 0, sizes, kind);
        EXPECT_EQ(b.weight_bytes - a.weight_bytes, holds ? weights : 0);
        EXPECT_EQ(b.kv_bytes - a.kv_bytes, holds ? kv : 0);
        EXPECT_EQ(b.activation_bytes - a.activation_bytes, holds ? work : 0);
      }
    }
  }
}

// Where no length is given, it is that of the served model: a GPU has work space by it.
TEST(PlacementTest, ADraftModelsLongContextIsNotCounted) {
  model::ModelConfig model = tests::TinyModel(8, 1000);
  model.max_position_embeddings = 256;
  auto draft = std::make_shared<model::ModelConfig>(tests::TinyModel(2, 1000));
  PlacementOptions options = Small();
  options.max_model_len = 0;
  options.draft = draft;
  const auto activations = [&](int64_t context) {
    draft->max_position_embeddings = context;
    std::vector<DeviceSpec> devices = Devices({kGiB});
    devices[0].kind = DeviceKind::kCuda;
    const auto placement = PlacePipeline(model, devices, options);
    EXPECT_TRUE(placement.ok()) << placement.status();
    return placement->stages[0].ranks[0].activation_bytes;
  };
  EXPECT_EQ(activations(1 << 17), activations(256));
  draft->max_position_embeddings = 1 << 17;
  model.max_position_embeddings = 1 << 17;
  EXPECT_GT(activations(1 << 17), activations(256)) << "or nothing was seen above";
}

// Blocks and layers give way to the draft model, and what cannot hold it is refused.
TEST(PlacementTest, TheDraftModelTakesRoom) {
  const model::ModelConfig model = tests::TinyModel(6, 1000);
  PlacementOptions options = Small();
  const int64_t all = model::ComputeShardBytes(model, model::WholeModel(model), 1, 0).total();
  const std::vector<DeviceSpec> devices = Devices({3 * all, 3 * all});
  const auto without = PlacePipeline(model, devices, options);
  options.draft = std::make_shared<model::ModelConfig>(tests::TinyModel(4, 1000));
  const auto with = PlacePipeline(model, devices, options);
  ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
  EXPECT_LT(with->num_blocks, without->num_blocks);
  for (const StagePlacement& stage : with->stages) {
    EXPECT_LE(stage.ranks[0].peak_bytes(), stage.ranks[0].budget_bytes);
  }
  options.draft = std::make_shared<model::ModelConfig>(tests::TinyModel(400, 1000));
  for (const std::vector<int32_t>& layers : {std::vector<int32_t>{}, {3, 3}}) {
    options.layers = layers;
    const absl::Status refused = PlacePipeline(model, devices, options).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr(", or no --draft-model"));
  }
  options.layers.clear();
  auto wide = std::make_shared<model::ModelConfig>(tests::TinyModel(2, 1000));
  wide->head_dim = 512;
  options.draft = wide;
  std::vector<DeviceSpec> gpus = Devices({kGiB, kGiB});
  for (DeviceSpec& device : gpus) device.kind = DeviceKind::kCuda;
  EXPECT_THAT(PlacePipeline(model, gpus, options).status().ToString(),
              AllOf(HasSubstr("draft model on w1"), HasSubstr("heads of 512 dimensions")));
}

}  // namespace
}  // namespace tutti::placement
