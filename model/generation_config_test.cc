#include "model/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint_testing.h"
#include "model/config_json.h"

namespace tutti::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig WithEos() {
  ModelConfig config = TinyConfig();
  config.eos_token_ids = {5};
  return config;
}

TEST(GenerationConfig, ReadsWhatIsThere) {
  const auto out = ParseGenerationConfig(
      R"({"eos_token_id": [3, 4, 3], "do_sample": true, "temperature": 0.6, "top_k": 20,
          "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.05, "unknown": {}})",
      "generation_config.json", WithEos());
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(out->eos_token_ids, ElementsAre(3, 4));
  EXPECT_EQ(out->do_sample, true);
  EXPECT_EQ(out->temperature, 0.6);
  EXPECT_EQ(out->top_k, 20);
  EXPECT_EQ(out->top_p, 0.95);
  EXPECT_EQ(out->min_p, 0.1);
  EXPECT_EQ(out->repetition_penalty, 1.05);
}

TEST(GenerationConfig, AbsentStaysAbsentAndEosFallsBack) {
  const auto out = ParseGenerationConfig("{}", "f", WithEos());
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(out->eos_token_ids, ElementsAre(5));
  EXPECT_FALSE(out->do_sample || out->temperature || out->top_k || out->top_p || out->min_p ||
               out->repetition_penalty);
  TempDir dir;
  const auto without_file = LoadGenerationConfig(dir.path(), WithEos());
  ASSERT_TRUE(without_file.ok());
  EXPECT_THAT(without_file->eos_token_ids, ElementsAre(5));
  EXPECT_EQ(ParseGenerationConfig(R"({"top_k": -1})", "f", WithEos())->top_k, 0);
}

TEST(GenerationConfig, NamesBadFields) {
  for (const auto& [text, field] : std::map<std::string, std::string>{
           {R"({"temperature": -1})", "temperature"},
           {R"({"temperature": "hot"})", "temperature"},
           {R"({"top_p": 1.5})", "top_p"},
           {R"({"min_p": -0.1})", "min_p"},
           {R"({"top_k": 1.5})", "top_k"},
           {R"({"top_k": 4294967296})", "top_k"},
           {R"({"repetition_penalty": 0})", "repetition_penalty"},
           {R"({"repetition_penalty": 0.0099})", "0.01"},
           {R"({"repetition_penalty": 1e-40})", "repetition_penalty"},
           {R"({"do_sample": 1})", "do_sample"},
           {R"({"eos_token_id": 200})", "eos_token_id"},
           {R"({"eos_token_id": -1})", "eos_token_id"},
           {R"([])", "not a JSON object"},
           {R"({"top_k": 1, "top_k": 2})", "twice"}}) {
    const auto out = ParseGenerationConfig(text, "generation_config.json", WithEos());
    EXPECT_EQ(out.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(out.status().message()), HasSubstr(field)) << text;
  }
}

TEST(GenerationConfig, RealFiles) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations";
  const std::string dir = TestData() + "/configs/Qwen3-4B";
  const auto out = LoadGenerationConfig(dir, *LoadModelConfig(dir));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(out->eos_token_ids, ElementsAre(151645, 151643));
  EXPECT_EQ(out->temperature, 0.6);
  EXPECT_EQ(out->top_k, 20);
  EXPECT_EQ(out->top_p, 0.95);
}

}  // namespace
}  // namespace tutti::model
