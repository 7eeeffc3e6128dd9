#include "coordinator/requests/router.h"

#include <gtest/gtest.h>

#include <vector>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

constexpr int32_t kRows = 512;

TEST(RouterTest, CostIsTheRowsBeforeTheFirstToken) {
  constexpr int64_t kNew = 100 * kRecomputeWeight;
  EXPECT_EQ(RouteCost({}, 100, kRows), kNew);
  EXPECT_EQ(RouteCost({.cached_tokens = 64}, 100, kRows), 36 * kRecomputeWeight);
  EXPECT_EQ(RouteCost({.backlog_tokens = 300}, 100, kRows), 300 + kNew);
  EXPECT_EQ(RouteCost({.running = 10}, 100, kRows), 10 + kNew)
      << "one step, a row for each of them";
  EXPECT_EQ(RouteCost({.backlog_tokens = 1000, .running = 10}, 100, kRows), 1030 + kNew)
      << "three steps";
  EXPECT_EQ(RouteCost({.evicted_tokens = 80}, 100, kRows), 10 + kNew);
  EXPECT_EQ(RouteCost({.has_room = false, .waiting = 2}, 100, kRows),
            kNew + 3 * kExpectedOutputTokens);
}

TEST(RouterTest, ANewPromptGoesWhereLeastIsToDo) {
  const std::vector<PipelineLoad> loads = {
      {.running = 3}, {.running = 1}, {.backlog_tokens = 50, .running = 0}};
  EXPECT_EQ(ChoosePipeline(loads, 100, kRows), 1u);
}

TEST(RouterTest, OfEqualsTheFirst) {
  const std::vector<PipelineLoad> loads(3);
  EXPECT_EQ(ChoosePipeline(loads, 100, kRows), 0u);
}

TEST(RouterTest, AConversationGoesHome) {
  const std::vector<PipelineLoad> loads = {
      {.running = 0}, {.cached_tokens = 960, .running = 20}, {.running = 2}};
  EXPECT_EQ(ChoosePipeline(loads, 1000, kRows), 1u) << "though it is the busiest";
}

TEST(RouterTest, UnlessHomeIsOverloaded) {
  std::vector<PipelineLoad> loads = {{}, {.cached_tokens = 960, .backlog_tokens = 3800}};
  EXPECT_EQ(ChoosePipeline(loads, 1000, kRows), 1u);
  loads[1].backlog_tokens = 3900;
  EXPECT_EQ(ChoosePipeline(loads, 1000, kRows), 0u);
}

TEST(RouterTest, ALongConversationWaitsForItsPlaceAtHome) {
  std::vector<PipelineLoad> loads = {{}, {.has_room = false, .cached_tokens = 4000, .running = 8}};
  EXPECT_EQ(ChoosePipeline(loads, 4100, kRows), 1u);
  loads[1].waiting = 80;
  EXPECT_EQ(ChoosePipeline(loads, 4100, kRows), 0u) << "not behind a queue";
}

TEST(RouterTest, WhoCannotHoldItIsNotAsked) {
  std::vector<PipelineLoad> loads = {{.can_hold = false}, {.backlog_tokens = 5000}};
  EXPECT_EQ(ChoosePipeline(loads, 100, kRows), 1u);
  loads[1].can_hold = false;
  EXPECT_EQ(ChoosePipeline(loads, 100, kRows), std::nullopt);
  EXPECT_EQ(ChoosePipeline({}, 100, kRows), std::nullopt);
}

}  // namespace
}  // namespace tutti::coordinator
