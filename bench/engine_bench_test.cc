#include "bench/engine_bench.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

TEST(EngineBenchTest, EverySequenceGetsTokens) {
  for (const int32_t sequences : {1, 7, 600}) {
    const EngineBenchRow row = MeasureEngine({.prompt_tokens = 200, .seconds = 0.05}, 1, sequences);
    EXPECT_EQ(row.sequences, sequences);
    EXPECT_GT(row.burst_us, 0);
    EXPECT_GT(row.steps, 0);
    EXPECT_GE(row.tokens, row.steps) << "only generating sequences are measured";
    EXPECT_GT(row.result_us, 0);
    EXPECT_GT(row.plan_us, 0);
    EXPECT_GT(row.plan_bytes, 5);
    EXPECT_LT(row.plan_bytes, 100);
  }
}

TEST(EngineBenchTest, ManyPipelinesShareTheSequences) {
  const EngineBenchRow row = MeasureEngine({.prompt_tokens = 20, .seconds = 0.05}, 16, 160);
  EXPECT_GT(row.status_us, 0);
  EXPECT_GT(row.text_us, 0);
  EXPECT_NEAR(static_cast<double>(row.tokens) / static_cast<double>(row.steps), 5, 1)
      << "ten on each, divided over two stages";
}

TEST(EngineBenchTest, GuessesBringSeveralTokensAStep) {
  const auto per_step = [](bool guesses) {
    const EngineBenchRow row = MeasureEngine(
        {.stages = 1, .prompt_tokens = 2000, .guesses = guesses, .seconds = 0.2}, 1, 2);
    return static_cast<double>(row.tokens) / static_cast<double>(row.steps);
  };
  EXPECT_EQ(per_step(false), 2);
  EXPECT_GT(per_step(true), 4);
}

// Those that wait come in as answers end, and others arrive in their place.
TEST(EngineBenchTest, SomeRunAndTheOthersWait) {
  const EngineBenchRow row = MeasureEngine(
      {.stages = 1, .running = 8, .prompt_tokens = 20, .output_tokens = 10, .seconds = 0.1}, 1,
      200);
  EXPECT_GT(row.tokens, 4000) << "more than all that were there at first";
  EXPECT_LE(row.tokens, 8 * row.steps);
}

TEST(EngineBenchTest, RefusesWhatCannotBe) {
  EXPECT_EQ(RunEngineBench({.sequences = {1}, .running = -1}), 2);
  EXPECT_EQ(RunEngineBench({.sequences = {1}, .output_tokens = -1}), 2);
  EXPECT_EQ(RunEngineBench({.sequences = {0}}), 2);
  EXPECT_EQ(RunEngineBench({.sequences = {1}, .stages = 0}), 2);
  EXPECT_EQ(RunEngineBench({.pipelines = {0}, .sequences = {1}}), 2);
  EXPECT_EQ(RunEngineBench({.sequences = {1}, .seconds = 0}), 2);
  EXPECT_EQ(RunEngineBench({.sequences = {1, 2}, .seconds = 0.01, .json = true}), 0);
}

}  // namespace
}  // namespace tutti::bench
