// How the engine decides the shape of its pipelines from flags and from the workers that join, and
// how it refuses: it always goes on waiting, says why, and what would help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/engine_layout_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(EngineLayoutTest, AModeMakesAStageOfEveryWorkerThatHasJoined) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  Start();
  Join("w1");
  Join("w0");
  EXPECT_THAT(WhyNot(), HasSubstr("2 workers have joined; the layout is decided when none has"));
  EXPECT_GT(engine_->next_deadline(), now_);
  EXPECT_LE(engine_->next_deadline(), now_ + kJoinQuiet);
  WaitUntilDecided();
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w1: 4"));
}

TEST_F(EngineLayoutTest, MinWorkersAreWaitedForAndNobodyElse) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  options_.min_workers = 2;
  Start();
  Join("w1");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("1 of at least 2 have joined (--min-workers)"));
  Join("w0");
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w1: 4")) << "at once";
}

TEST_F(EngineLayoutTest, BalancedLow0LeavesTheFirstWorkerOutIfItCan) {
  options_.device_map.mode = placement::DeviceMapMode::kBalancedLow0;
  options_.min_workers = 3;
  Start();
  for (const char* id : {"w2", "w0", "w1"}) Join(id);
  EXPECT_THAT(Stages(), ElementsAre("w1: 4", "w2: 4"));
  EXPECT_EQ(Status().idle_workers_size(), 1);
}

TEST_F(EngineLayoutTest, SequentialFillsOneWorkerAfterTheOther) {
  options_.device_map.mode = placement::DeviceMapMode::kSequential;
  options_.min_workers = 3;
  Start();
  for (const char* id : {"w2", "w0", "w1"}) Join(id);
  EXPECT_THAT(Stages(), ElementsAre("w0: 8")) << "all fits the first";
}

TEST_F(EngineLayoutTest, AModeGoesOnWithThoseThatAreLeft) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  Start();
  for (const char* id : {"w0", "w1", "w2"}) Join(id);
  WaitUntilDecided();
  EXPECT_THAT(Stages(), testing::SizeIs(3));
  Lose("w1");
  EXPECT_THAT(WhyNot(), HasSubstr("2 workers have joined"));
  WaitUntilDecided();
  EXPECT_THAT(Stages(), ElementsAre("w0: 4", "w2: 4"));
}

TEST_F(EngineLayoutTest, WhatDoesNotFitSaysWhatWouldAndGoesOnWaiting) {
  options_.device_map.mode = placement::DeviceMapMode::kBalanced;
  options_.model = tests::TinyModel(400);
  Start();
  Join("w0", 4 * kMiB);
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("the model does not fit"));
  EXPECT_THAT(WhyNot(), HasSubstr("What would fit: "));
  EXPECT_THAT(Notices(), ElementsAre(HasSubstr("no pipeline can form: the model does not fit")));
  Join("w1", 64 * kMiB);
  WaitUntilDecided();
  EXPECT_THAT(Stages(), testing::SizeIs(2));
}

TEST_F(EngineLayoutTest, KvRoomThatWasAskedForIsNotTraded) {
  options_.device_map.mode = placement::DeviceMapMode::kSequential;
  options_.kv_tokens_max = 0;
  options_.kv_tokens_min = 30'000;
  Start();
  Join("w0", 16 * kMiB);
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("with room for only 30000 tokens")) << "1 KiB a token";
  Join("w1", 32 * kMiB);
  WaitUntilDecided();
  EXPECT_THAT(Stages(), testing::SizeIs(2));
}

TEST_F(EngineLayoutTest, AutoChoosesFromThoseThatJoinedAndTellsWhatItRejected) {
  options_.num_ranks = 0;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  ASSERT_TRUE(status.has_layout());
  const v1::LayoutTried& chosen = status.layout().chosen();
  EXPECT_TRUE(chosen.fits());
  EXPECT_EQ(status.layout().workers(), 4);
  EXPECT_FALSE(status.layout().speeds_known());
  EXPECT_EQ(status.pipelines(0).stages_size(), chosen.stages() * chosen.ranks());
  ASSERT_GT(status.layout().rejected_size(), 0);
  for (const v1::LayoutTried& rejected : status.layout().rejected()) {
    EXPECT_NE(rejected.why_rejected(), "");
    EXPECT_LE(rejected.stages() * rejected.ranks() * rejected.pipelines(), 4);
  }
  EXPECT_THAT(Notices(), ElementsAre(testing::AllOf(HasSubstr("layout: "), HasSubstr("rejected: "),
                                                    HasSubstr("for 4 workers"))));
}

TEST_F(EngineLayoutTest, AutoKeepsWhatWasAskedFor) {
  options_.num_ranks = 2;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  EXPECT_EQ(status.layout().chosen().ranks(), 2);
  EXPECT_EQ(status.pipelines(0).stages(1).rank(), 1);
}

TEST_F(EngineLayoutTest, AutoGoesOnWithASpareAtOnceAndWithLessAfterAWhile) {
  options_.model = tests::TinyModel(400);
  Start();
  for (const char* id : {"w0", "w1", "w2"}) Join(id, 16 * kMiB);
  WaitUntilDecided();
  ASSERT_THAT(Stages(), testing::SizeIs(3)) << WhyNot();
  Join("w3", 16 * kMiB);
  Lose("w1");
  Wait(std::chrono::seconds(1));
  EXPECT_THAT(Stages(), testing::SizeIs(3)) << "the spare takes its place in the same layout";
  Lose("w0");
  WaitUntilDecided();
  EXPECT_THAT(WhyNot(), HasSubstr("the model does not fit"));
  Join("w9", 64 * kMiB);
  WaitUntilDecided();
  EXPECT_GE(Stages().size(), 2u) << WhyNot();
}

TEST_F(EngineLayoutTest, AutoOfSeveralPipelines) {
  options_.num_pipelines = 2;
  options_.min_workers = 4;
  Start();
  for (const char* id : {"w0", "w1", "w2", "w3"}) Join(id);
  const auto status = Status();
  ASSERT_EQ(status.pipelines_size(), 2);
  EXPECT_EQ(status.layout().chosen().pipelines(), 2);
  EXPECT_GT(status.pipelines(1).stages_size(), 0);
}

TEST_F(EngineLayoutTest, NobodyHasJoined) {
  Start();
  Turn();
  EXPECT_THAT(WhyNot(), HasSubstr("none has joined"));
  EXPECT_FALSE(Status().has_layout());
}

}  // namespace
}  // namespace tutti::coordinator
