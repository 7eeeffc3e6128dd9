#include "client/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/format.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

// The shape of Qwen3-0.6B.
constexpr const char* kConfig = R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024,
  "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
  "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "rms_norm_eps": 1e-6,
  "max_position_embeddings": 40960, "rope_theta": 1000000, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "hidden_act": "silu", "attention_bias": false})";

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    std::filesystem::create_directories(dir_);
    std::ofstream(dir_ + "/config.json") << kConfig;
  }

  ~PlanTest() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<PlanReport> Plan(std::vector<int64_t> devices) {
    PlanRequest request{.model = dir_, .devices = std::move(devices), .options = options_};
    return MakePlan(request);
  }

  const std::string dir_ = ::testing::TempDir() + "plan_test_model";
  PlacementOptions options_;
};

TEST_F(PlanTest, EveryLayerHasOneHomeAndNoDeviceIsOverfull) {
  const auto report = Plan({2 * kGiB, 4 * kGiB, 3 * kGiB});
  ASSERT_TRUE(report.ok()) << report.status();
  int next_layer = 0;
  for (const StagePlan& stage : report->plan.stages) {
    EXPECT_EQ(stage.first_layer, next_layer);
    next_layer += stage.num_layers;
    EXPECT_LE(stage.ranks[0].peak_bytes(), stage.ranks[0].budget_bytes);
  }
  EXPECT_EQ(next_layer, 28);
  EXPECT_TRUE(report->plan.stages.front().has_embedding);
  EXPECT_TRUE(report->plan.stages.back().has_head);
  EXPECT_GT(report->plan.kv_tokens(), 0);
}

TEST_F(PlanTest, TakesTheFileItselfToo) {
  PlanRequest request{.model = dir_ + "/config.json", .devices = {4 * kGiB}, .options = {}};
  EXPECT_TRUE(MakePlan(request).ok());
  request.model = dir_ + "/nothing";
  EXPECT_EQ(MakePlan(request).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PlanTest, RefusesWhatCannotFitAndSaysWhatWould) {
  const auto report = Plan({kGiB / 4, kGiB / 4});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kResourceExhausted) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("device 0"));
}

TEST_F(PlanTest, TextAndJsonTellTheSame) {
  const auto report = Plan({4 * kGiB, 4 * kGiB});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto json = nlohmann::json::parse(PlanToJson(*report), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["kv_tokens"], report->plan.kv_tokens());
  ASSERT_EQ(json["stages"].size(), 2u);
  const std::string text = RenderPlan(*report);
  EXPECT_THAT(text, HasSubstr("Qwen3ForCausalLM, 28 layers, hidden 1024, bf16"));
  for (const auto& stage : json["stages"]) {
    const auto& rank = stage["ranks"][0];
    EXPECT_THAT(text, HasSubstr(FormatBytes(rank["weight_bytes"].get<int64_t>())));
    EXPECT_EQ(rank["peak_bytes"].get<int64_t>(), rank["weight_bytes"].get<int64_t>() +
                                                     rank["kv_bytes"].get<int64_t>() +
                                                     rank["activation_bytes"].get<int64_t>());
  }
}

TEST(PlanOfRealModels, DenseQwen3FitsAndQuantisedIsRefusedByName) {
  const char* testdata = std::getenv("TUTTI_TESTDATA");
  if (testdata == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA is not set";
  const std::string configs = std::string(testdata) + "/configs/";
  PlanRequest request{.model = configs + "Qwen3-32B", .devices = {}, .options = {}};
  request.devices.assign(4, 24 * kGiB);
  const auto large = MakePlan(request);
  ASSERT_TRUE(large.ok()) << large.status();
  int64_t weights = 0;
  for (const StagePlan& stage : large->plan.stages) weights += stage.ranks[0].weight_bytes;
  // 32.8 billion parameters of two bytes.
  EXPECT_NEAR(static_cast<double>(weights), 65.5e9, 1e9);

  request.devices.resize(2);
  EXPECT_EQ(MakePlan(request).status().code(), absl::StatusCode::kResourceExhausted);

  request.model = configs + "Qwen3-4B-AWQ";
  const auto quantised = MakePlan(request);
  EXPECT_EQ(quantised.status().code(), absl::StatusCode::kUnimplemented) << quantised.status();
}

}  // namespace
}  // namespace tutti
