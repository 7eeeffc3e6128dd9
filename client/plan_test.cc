#include "client/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/format.h"

namespace tutti::client {
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

std::vector<placement::DeviceSpec> Devices(const std::vector<int64_t>& memory) {
  std::vector<placement::DeviceSpec> devices;
  for (const int64_t bytes : memory) {
    devices.push_back(
        {.name = "device " + std::to_string(devices.size()), .memory_bytes = bytes, .speed = {}});
  }
  return devices;
}

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    std::filesystem::create_directories(dir_);
    std::ofstream(dir_ + "/config.json") << kConfig;
  }

  ~PlanTest() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<PlanReport> Plan(const std::vector<int64_t>& memory,
                                  const std::string& device_map = "") {
    PlanRequest request{.model = dir_,
                        .devices = Devices(memory),
                        .max_memory = max_memory_,
                        .device_map = device_map,
                        .options = options_};
    if (device_map.empty()) {
      request.options.placement.num_stages = static_cast<int32_t>(memory.size());
    }
    return MakePlan(request);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  const std::string dir_ = ::testing::TempDir() + "plan_test_model";
  placement::ClusterOptions options_{.placement = {}, .num_pipelines = 1};
  placement::MaxMemory max_memory_;
};

// As a coordinator with the same flag sets them apart.
TEST_F(PlanTest, RowsKeptAreTakenFromEachDevicesMemoryFirst) {
  PlanRequest request{.model = dir_, .devices = Devices({3 * kGiB, 3 * kGiB}), .options = options_};
  request.options.placement.num_stages = 2;
  request.kept_rows_bytes = kGiB;
  const auto report = MakePlan(request);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto smaller = Plan({2 * kGiB, 2 * kGiB});
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  EXPECT_EQ(report->plan.pipelines[0].num_blocks, smaller->plan.pipelines[0].num_blocks);
  EXPECT_THAT(RenderPlan(*report), HasSubstr("1.0 GiB are set apart for rows"));
  request.kept_rows_bytes = 100 * kGiB;
  EXPECT_FALSE(MakePlan(request).ok()) << "nothing is left";
}

TEST_F(PlanTest, EveryLayerHasOneHomeAndNoDeviceIsOverfull) {
  const auto report = Plan({2 * kGiB, 4 * kGiB, 3 * kGiB});
  ASSERT_TRUE(report.ok()) << report.status();
  int next_layer = 0;
  for (const placement::StagePlacement& stage : report->plan.pipelines[0].stages) {
    EXPECT_EQ(stage.first_layer, next_layer);
    next_layer += stage.num_layers;
    EXPECT_LE(stage.ranks[0].peak_bytes(), stage.ranks[0].budget_bytes);
  }
  EXPECT_EQ(next_layer, 28);
  EXPECT_TRUE(report->plan.pipelines[0].stages.front().has_embedding);
  EXPECT_TRUE(report->plan.pipelines[0].stages.back().has_head);
  EXPECT_GT(report->plan.pipelines[0].kv_tokens(), 0);
}

TEST_F(PlanTest, OfAGpuCudaTakesItsPart) {
  PlanRequest request{.model = dir_,
                      .devices = Devices({4 * kGiB}),
                      .max_memory = {},
                      .device_map = {},
                      .options = options_};
  request.devices[0].kind = DeviceKind::kCuda;
  request.devices[0].whole_gpu = true;
  const auto report = MakePlan(request);
  ASSERT_TRUE(report.ok()) << report.status();
  const placement::RankPlacement& rank = report->plan.pipelines[0].stages[0].ranks[0];
  EXPECT_EQ(rank.budget_bytes, placement::UsableBytes(request.devices[0]));
  EXPECT_LE(rank.peak_bytes(), rank.budget_bytes);
  EXPECT_THAT(RenderPlan(*report), HasSubstr("are left to CUDA (assumed, not measured)"));
  EXPECT_THAT(PlanToJson(*report), HasSubstr("\"device_kind\": \"cuda\""));
  // A limit bounds the memory in use, as --memory of a worker does.
  request.max_memory = {{"0", 3 * kGiB}};
  EXPECT_EQ(MakePlan(request)->plan.pipelines[0].stages[0].ranks[0].budget_bytes,
            std::min(3 * kGiB, placement::UsableBytes(request.devices[0])));
}

TEST_F(PlanTest, TakesTheFileItselfToo) {
  PlanRequest request{.model = dir_ + "/config.json",
                      .devices = Devices({4 * kGiB}),
                      .max_memory = {},
                      .device_map = {},
                      .options = options_};
  EXPECT_TRUE(MakePlan(request).ok());
  request.model = dir_ + "/nothing";
  EXPECT_EQ(MakePlan(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PlanTest, RefusesWhatCannotFitAndSaysWhatWould) {
  const auto report = Plan({kGiB / 4, kGiB / 4});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kResourceExhausted) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("device 0"));
}

TEST_F(PlanTest, SaysWhenOneFullContextDoesNotFit) {
  options_.placement.num_stages = 1;
  const auto tight = Plan({2 * kGiB});
  ASSERT_TRUE(tight.ok()) << tight.status();
  const int64_t room = tight->plan.pipelines[0].kv_tokens();
  ASSERT_LT(room, tight->model.max_position_embeddings);
  const std::string said =
      absl::StrCat("one full context of ", tight->model.max_position_embeddings,
                   " tokens does not fit: there is room for ", room);
  EXPECT_THAT(RenderPlan(*tight), HasSubstr(said));
  EXPECT_THAT(PlanToJson(*tight), HasSubstr(said));
  EXPECT_THAT(Plan({16 * kGiB})->notes, testing::IsEmpty());
  options_.placement.max_model_len = static_cast<int32_t>(room);
  EXPECT_THAT(Plan({2 * kGiB})->notes, testing::IsEmpty());
}

TEST_F(PlanTest, TextAndJsonTellTheSame) {
  const auto report = Plan({4 * kGiB, 4 * kGiB});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto json = nlohmann::json::parse(PlanToJson(*report), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["kv_tokens"], report->plan.pipelines[0].kv_tokens());
  ASSERT_EQ(json["pipelines"][0]["stages"].size(), 2u);
  const std::string text = RenderPlan(*report);
  EXPECT_THAT(text, HasSubstr("Qwen3ForCausalLM, 28 layers, hidden 1024, bf16"));
  for (const auto& stage : json["pipelines"][0]["stages"]) {
    const auto& rank = stage["ranks"][0];
    EXPECT_THAT(text, HasSubstr(FormatBytes(rank["weight_bytes"].get<int64_t>())));
    EXPECT_EQ(rank["peak_bytes"].get<int64_t>(), rank["weight_bytes"].get<int64_t>() +
                                                     rank["kv_bytes"].get<int64_t>() +
                                                     rank["activation_bytes"].get<int64_t>());
  }
}

TEST_F(PlanTest, MapsAreModesOrFiles) {
  EXPECT_EQ(Plan({4 * kGiB, 4 * kGiB}, "sequential")->plan.pipelines[0].stages.size(), 1u);
  EXPECT_EQ(Plan({4 * kGiB, 4 * kGiB}, "balanced")->plan.pipelines[0].stages.size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(Plan({4 * kGiB}, "balance").status())) << "taken for a file";

  const std::string map = Write("map.json", R"({"model": 1, "model.layers": 0, "lm_head": 0,
      "model.embed_tokens": 0, "model.layers.27": 1})");
  const auto mapped = Plan({2 * kGiB, 4 * kGiB}, map);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->plan.pipelines[0].stages[0].num_layers, 27);
  EXPECT_EQ(mapped->plan.pipelines[0].stages[1].ranks[0].device, "device 1");
  ASSERT_FALSE(mapped->notes.empty());
  EXPECT_THAT(RenderPlan(*mapped), HasSubstr("note: the head is tied"));
  const auto tight = Plan({kGiB, 4 * kGiB}, map).status();
  EXPECT_TRUE(absl::IsResourceExhausted(tight)) << tight;
  EXPECT_THAT(tight.ToString(), HasSubstr("stage 0 (device 0, 1.00 GiB) with 27 layers lacks "));
  options_.placement.num_ranks = 2;
  EXPECT_THAT(Plan({kGiB, kGiB}, map).status().ToString(), HasSubstr("leave out the sizes"));
}

TEST_F(PlanTest, MaxMemoryLimits) {
  max_memory_ = {{"1", kGiB}};
  const auto report = Plan({4 * kGiB, 4 * kGiB}, "balanced");
  EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << report.status();
  EXPECT_THAT(report.status().ToString(), HasSubstr("device 1, 1.00 GiB"));
  max_memory_ = {{"2", kGiB}};
  EXPECT_TRUE(absl::IsNotFound(Plan({4 * kGiB, 4 * kGiB}, "balanced").status()));
}

TEST_F(PlanTest, TimesAreToldWhereSpeedsAreKnown) {
  PlanRequest request{.model = dir_,
                      .devices = Devices({4 * kGiB, 4 * kGiB}),
                      .max_memory = {},
                      .device_map = {},
                      .options = {.placement = {.num_stages = 2}, .num_pipelines = 1}};
  const auto blind = MakePlan(request);
  EXPECT_THAT(RenderPlan(*blind), HasSubstr("No times: give speeds"));
  EXPECT_FALSE(nlohmann::json::parse(PlanToJson(*blind))["pipelines"][0].contains("predicted"));
  for (placement::DeviceSpec& device : request.devices) device.speed = {936e9, 71e12};
  const auto seeing = MakePlan(request);
  const std::string text = RenderPlan(*seeing);
  EXPECT_THAT(text, HasSubstr("predicted: "));
  EXPECT_THAT(text, HasSubstr("links taken for 10 Gbit/s"));
  const auto json = nlohmann::json::parse(PlanToJson(*seeing));
  EXPECT_GT(json["pipelines"][0]["predicted"]["tokens_per_second"].get<double>(), 1.0);
  EXPECT_GT(json["pipelines"][0]["stages"][1]["step_seconds"].get<double>(), 0.0);
}

TEST_F(PlanTest, RejectedLayoutsAreTold) {
  options_ = {.placement = {.num_ranks = 0}, .num_pipelines = 0};
  PlanRequest request{.model = dir_,
                      .devices = Devices(std::vector<int64_t>(4, kGiB)),
                      .max_memory = {},
                      .device_map = "auto",
                      .options = options_};
  const auto report = MakePlan(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->plan.rejected.empty());
  const std::string text = RenderPlan(*report);
  EXPECT_THAT(text, HasSubstr("rejected"));
  EXPECT_THAT(text, HasSubstr("% of its speed"));
}

TEST(PlanOfRealModels, DenseQwen3FitsAndSoDoesAQuantisedOne) {
  const char* testdata = std::getenv("TUTTI_TESTDATA");
  if (testdata == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA is not set";
  const std::string configs = std::string(testdata) + "/configs/";
  PlanRequest request{.model = configs + "Qwen3-32B",
                      .devices = Devices(std::vector<int64_t>(4, 24 * kGiB)),
                      .max_memory = {},
                      .device_map = {},
                      .options = {.placement = {.num_stages = 4}, .num_pipelines = 1}};
  const auto large = MakePlan(request);
  ASSERT_TRUE(large.ok()) << large.status();
  int64_t weights = 0;
  for (const placement::StagePlacement& stage : large->plan.pipelines[0].stages)
    weights += stage.ranks[0].weight_bytes;
  // 32.8 billion parameters of two bytes.
  EXPECT_NEAR(static_cast<double>(weights), 65.5e9, 1e9);

  request.devices.resize(2);
  request.options.placement.num_stages = 2;
  EXPECT_EQ(MakePlan(request).status().code(), absl::StatusCode::kResourceExhausted);

  request.model = configs + "Qwen3-4B-AWQ";
  const auto quantised = MakePlan(request);
  ASSERT_TRUE(quantised.ok()) << quantised.status();
  weights = 0;
  for (const placement::StagePlacement& stage : quantised->plan.pipelines[0].stages)
    weights += stage.ranks[0].weight_bytes;
  // 3.6 billion weights of 4.19 bits, and a tied head of 389 million of 16, on both stages.
  EXPECT_NEAR(static_cast<double>(weights), 3.45e9, 1e8);
  EXPECT_THAT(quantised->notes.back(), HasSubstr("quantised: AWQ int4, groups of 128"));
  for (placement::DeviceSpec& device : request.devices) device.kind = DeviceKind::kCuda;
  const auto on_gpus = MakePlan(request);
  ASSERT_TRUE(on_gpus.ok()) << on_gpus.status();
  int64_t on_gpu = 0;
  for (const placement::StagePlacement& stage : on_gpus->plan.pipelines[0].stages)
    on_gpu += stage.ranks[0].weight_bytes;
  // Their tables of strips are a 2,000th of it.
  EXPECT_NEAR(static_cast<double>(on_gpu), static_cast<double>(weights), weights / 1000.);
}

TEST_F(PlanTest, AsIfItWereQuantised) {
  PlanRequest request{.model = dir_, .devices = Devices({2 * kGiB}), .options = options_};
  request.options.placement.num_stages = 1;
  const auto bytes = [&]() -> int64_t {
    const auto report = MakePlan(request);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->plan.pipelines[0].stages[0].ranks[0].weight_bytes : 0;
  };
  // Of each of 28 layers 15,728,640 weights, with a scale of 16 bits for each 128 of them.
  constexpr int64_t kWeights = int64_t{28} * 15'728'640, kVocab = int64_t{151'936} * 1024;
  request.quantise.scheme = "int4-g128";
  const int64_t tied = bytes();
  const int64_t vectors = tied - kWeights / 2 - kWeights / 64 - 2 * kVocab;
  EXPECT_GT(vectors, 0);
  EXPECT_LT(vectors, 1 << 20);
  request.quantise.head = true;
  EXPECT_EQ(bytes(), tied + kVocab / 2 + kVocab / 64) << "a head of its own beside the embedding";
  request.quantise.scheme = "int5";
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("int4-g128"));
  request.quantise.scheme = "";
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("--quantize-head"));
}

}  // namespace
}  // namespace tutti::client
