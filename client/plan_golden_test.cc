// Plans of real models on common devices, compared with the tables in tests/golden/plan.
//
// With TUTTI_REWRITE=1 the tables are written anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/plan.h"
#include "client/plan_devices.h"

namespace tutti::client {
namespace {

struct Case {
  const char* name;
  const char* model;
  const char* devices;
  int32_t stages = 0;  // 0: auto
  int32_t ranks = 0;
  int32_t pipelines = 0;
  int32_t max_model_len = 0;
  const char* link = "50GB/s,10us";
  const char* device_map = "";
  const char* quantize = "";
  int32_t sequences = 256;
};

constexpr Case kCases[] = {
    // 144 GB of weights, and 64 KV heads: 2.6 MB per token.
    {"qwen1.5-72b-on-one", "Qwen1.5-72B-Chat", "80GiB@2TB/s@312Tflop/s", 1, 1, 1, 8192},
    {"qwen1.5-72b-on-5x80-ranks-4", "Qwen1.5-72B-Chat", "5x80GiB@2TB/s@312Tflop/s", 1, 4, 1, 32768},
    {"qwen1.5-72b-on-5x80-auto", "Qwen1.5-72B-Chat", "5x80GiB@2TB/s@312Tflop/s", 0, 0, 0, 8192},
    {"chatglm3-6b-128k-on-2x24", "chatglm3-6b-128k", "2x24GiB@936GB/s@71Tflop/s", 2, 1, 1, 131072,
     "10Gbit/s,50us"},
    {"qwen2.5-3b-on-8-and-24", "Qwen2.5-3B-Instruct",
     "8GiB@448GB/s@24Tflop/s,24GiB@936GB/s@71Tflop/s", 2, 1, 1, 32768, "10Gbit/s,50us"},
    {"qwen2.5-3b-on-8-and-24-balanced", "Qwen2.5-3B-Instruct",
     "8GiB@448GB/s@24Tflop/s,24GiB@936GB/s@71Tflop/s", 0, 1, 1, 32768, "10Gbit/s,50us", "balanced"},
    {"qwen1.5-72b-on-5x80-gpus", "Qwen1.5-72B-Chat", "cuda:5x80GiB@2TB/s@312Tflop/s", 0, 0, 0,
     8192},
    {"qwen2.5-3b-on-one-8-gpu", "Qwen2.5-3B-Instruct", "cuda:8GiB", 1, 1, 1, 32768},
    {"qwen3-235b-on-8x141", "Qwen3-235B-A22B", "8x141GiB@4800GB/s@990Tflop/s", 0, 0, 0, 40960},
    {"qwen3-235b-on-16x80", "Qwen3-235B-A22B", "16x80GiB@2TB/s@312Tflop/s", 0, 0, 0, 40960},
    // As many bytes as GPTQ of 4 bits with groups of 128 takes.
    {"qwen1.5-72b-int4-on-2x24", "Qwen1.5-72B-Chat", "2x24GiB@200GB/s@4Tflop/s", 2, 1, 1, 2048,
     "10Gbit/s,50us", "", "int4-g128", 64},
    {"qwen1.5-72b-int4-on-48", "Qwen1.5-72B-Chat", "48GiB@200GB/s@4Tflop/s", 1, 1, 1, 2048,
     "10Gbit/s,50us", "", "int4-g128", 64},
    {"qwen3-4b-awq-on-4", "Qwen3-4B-AWQ", "4GiB@50GB/s@1Tflop/s", 1, 1, 1, 8192},
    {"qwen3-4b-awq-on-a-gpu", "Qwen3-4B-AWQ", "cuda:24GiB", 1, 1, 1, 8192},
};

class PlanGoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(PlanGoldenTest, SaysWhatItSaid) {
  const char* const testdata = std::getenv("TUTTI_TESTDATA");
  if (testdata == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations here";
  const Case& one = GetParam();
  PlanRequest request{.model = absl::StrCat(testdata, "/configs/", one.model),
                      .devices = *ParseDeviceSpecs(one.devices),
                      .max_memory = {},
                      .device_map = one.device_map,
                      .options = {.placement = {.num_stages = one.stages,
                                                .num_ranks = one.ranks,
                                                .max_model_len = one.max_model_len,
                                                .kv_tokens_min = one.max_model_len,
                                                .link = *ParseLink(one.link)},
                                  .num_pipelines = one.pipelines},
                      .quantise = {.scheme = one.quantize}};
  request.options.placement.max_sequences = one.sequences;
  const auto report = MakePlan(request);
  const std::string said =
      report.ok() ? RenderPlan(*report) : absl::StrCat(report.status().ToString(), "\n");

  const char* const source = std::getenv("TUTTI_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string path = absl::StrCat(source, "/tests/golden/plan/", one.name, ".txt");
  if (std::getenv("TUTTI_REWRITE") != nullptr) std::ofstream(path) << said;
  std::ifstream file(path);
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(said, expected.str()) << path << ": rewrite with TUTTI_REWRITE=1 if this is intended";
}

INSTANTIATE_TEST_SUITE_P(RealModels, PlanGoldenTest, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace tutti::client
