// The plan is a proof: placement promises for every rank the very memory that the worker's loader
// reports, to the byte; for every checkpoint of tests/golden in every layout that it takes. And its
// coordinator takes the worker with it. Built once more for the emulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/fleet/shard_check.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "placement/place_pipeline.h"
#include "worker/pipeline_testing.h"

namespace tutti::tests {
namespace {

using worker::GoldenDir;

struct Case {
  std::string checkpoint;
  std::string backend;
};

struct Layout {
  std::vector<int32_t> layers;
  std::vector<int32_t> ranks;
  bool whole_experts = false;
  int32_t max_batch_tokens = 48;
  std::string draft = {};  // a checkpoint; "": no draft model
};

class PlanProofTest : public ::testing::TestWithParam<Case> {
 protected:
  void ExpectProof(const Layout& layout) {
    const worker::TestPipelineOptions options = {
        .model_dir = worker::GoldenDir(GetParam().checkpoint),
        .draft_dir = layout.draft.empty() ? "" : worker::GoldenDir(layout.draft),
        .backend = GetParam().backend,
        .layers = layout.layers,
        .ranks = layout.ranks,
        .whole_experts = layout.whole_experts,
        .max_batch_tokens = layout.max_batch_tokens};
    const worker::TestPipeline pipeline(options);
    model::ModelConfig config = pipeline.config();
    config.whole_experts = layout.whole_experts;
    const bool gpu = absl::StartsWith(GetParam().backend, "cuda");
    const placement::DeviceSpec device = {.name = "w",
                                          .memory_bytes = int64_t{1} << 40,
                                          .speed = {},
                                          .kind = gpu ? DeviceKind::kCuda : DeviceKind::kCpu};
    const int32_t count = std::accumulate(layout.ranks.begin(), layout.ranks.end(), 0);
    std::shared_ptr<const model::ModelConfig> draft;
    if (!layout.draft.empty()) {
      draft = std::make_shared<model::ModelConfig>(*model::LoadModelConfig(options.draft_dir));
    }
    // As TestPipeline assigns its shards.
    const auto placement = placement::PlacePipeline(
        config, std::vector<placement::DeviceSpec>(static_cast<size_t>(count), device),
        {.stage_ranks = layout.ranks,
         .layers = layout.layers,
         .block_size = options.block_size,
         .max_batch_tokens = options.max_batch_tokens,
         .max_sequences = 64,
         .kv_tokens_max = int64_t{options.num_blocks} * options.block_size,
         .draft = draft});
    ASSERT_TRUE(placement.ok()) << placement.status();
    ASSERT_EQ(placement->num_blocks, options.num_blocks);
    coordinator::EngineOptions engine;
    engine.compare_memory = true;
    const coordinator::ShardCheck check(&engine);
    const coordinator::Worker worker{.link = coordinator::LinkKey(1)};
    for (size_t stage = 0; stage < layout.layers.size(); ++stage) {
      for (int32_t rank = 0; rank < layout.ranks[stage]; ++rank) {
        SCOPED_TRACE(absl::StrCat("stage ", stage, " of ", layout.layers.size(), ", rank ", rank,
                                  " of ", layout.ranks[stage]));
        const placement::RankPlacement& promised = placement->stages[stage].ranks[rank];
        const v1::ShardReady& loaded = pipeline.ready(stage, rank);
        // As a coordinator judges it.
        const absl::Status taken = check.CompareMemory(worker, promised, v1::AssignShard(), loaded);
        EXPECT_TRUE(taken.ok()) << taken;
        EXPECT_EQ(promised.weight_bytes, loaded.weight_bytes());
        EXPECT_EQ(promised.kv_bytes, loaded.kv_bytes());
        const bool shares = gpu && draft != nullptr && stage + 1 == layout.layers.size();
        if (shares && rank == 0) {
          EXPECT_GE(promised.activation_bytes, loaded.activation_bytes());
        } else {
          EXPECT_EQ(promised.activation_bytes, loaded.activation_bytes());
        }
      }
    }
  }

  model::ModelConfig config_ = *model::LoadModelConfig(worker::GoldenDir(GetParam().checkpoint));
  const int32_t layers_ = static_cast<int32_t>(config_.num_layers);
};

TEST_P(PlanProofTest, InOneStageOrSeveral) {
  ExpectProof({.layers = {layers_}, .ranks = {1}});
  ExpectProof({.layers = {layers_}, .ranks = {1}, .max_batch_tokens = 1});
  if (layers_ > 1) ExpectProof({.layers = {1, layers_ - 1}, .ranks = {1, 1}});
  if (layers_ > 2) ExpectProof({.layers = {1, 1, layers_ - 2}, .ranks = {1, 1, 1}});
}

// A GPU's operators share memory, those of both models, and the plan counts each: there it promises
// more.
TEST_P(PlanProofTest, WithADraftModel) {
  for (const std::string draft : {"one-layer-untied-f16", "families/qwen3-moe-bf16"}) {
    ExpectProof({.layers = {layers_}, .ranks = {1}, .draft = draft});
    if (layers_ == 1) continue;
    ExpectProof({.layers = {1, layers_ - 1}, .ranks = {1, 2}, .draft = draft});
  }
}

TEST_P(PlanProofTest, OnRanks) {
  for (const bool whole_experts : {false, true}) {
    if (whole_experts && !config_.has_experts()) continue;
    config_.whole_experts = whole_experts;
    for (const int32_t ranks : {2, 4, 8}) {
      if (!model::CheckRanks(config_, ranks).ok()) continue;
      ExpectProof({.layers = {layers_}, .ranks = {ranks}, .whole_experts = whole_experts});
      if (layers_ == 1) continue;
      ExpectProof(
          {.layers = {1, layers_ - 1}, .ranks = {ranks, 1}, .whole_experts = whole_experts});
    }
  }
}

std::vector<Case> Cases() {
  std::vector<std::string> checkpoints;
  for (const char* folder : {"", "families/"}) {
    for (const auto& entry : std::filesystem::directory_iterator(worker::GoldenDir(folder))) {
      if (!std::filesystem::exists(entry.path() / "model.safetensors")) continue;
      checkpoints.push_back(absl::StrCat(folder, entry.path().filename().string()));
    }
  }
  std::sort(checkpoints.begin(), checkpoints.end());
  std::vector<Case> cases;
  for (const std::string& backend : worker::TestedBackends()) {
    if (backend == "reference") continue;  // for tests: no plan names it
    for (const std::string& checkpoint : checkpoints) cases.push_back({checkpoint, backend});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Golden, PlanProofTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrReplaceAll(absl::StrCat(info.param.checkpoint, "_", info.param.backend),
                             {{"families/", ""}, {"-", "_"}, {":", "_"}});
});

}  // namespace
}  // namespace tutti::tests
