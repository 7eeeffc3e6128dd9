// How pipelines form from workers that join, load, and form again when workers are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

using EngineFormingTest = EngineTest;

TEST_F(EngineFormingTest, AsManyPipelinesAsTheWorkersAllow) {
  EngineOptions options = TinyEngineOptions(2);
  options.num_pipelines = 0;
  Start(options);
  Turn();
  EXPECT_EQ(Status().pipelines_size(), 1);
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("0 of 2 have joined"));
  for (uint64_t link = 1; link <= 5; ++link) Join(link, "w" + std::to_string(link));
  Turn();
  const auto status = Status();
  ASSERT_EQ(status.pipelines_size(), 2);
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w1");
  EXPECT_EQ(status.pipelines(1).stages(1).worker().worker_id(), "w4");
  ASSERT_EQ(status.idle_workers_size(), 1) << "one is not enough for a third";
  Join(6, "w6");
  Turn();
  EXPECT_EQ(Status().pipelines_size(), 3);
  EXPECT_EQ(Status().pipelines(2).pipeline(), 2u);
}

TEST_F(EngineFormingTest, SurvivorsKeepTheirStages) {
  EngineOptions options = TinyEngineOptions(2);
  options.num_pipelines = 2;
  Start(options);
  for (uint64_t link = 1; link <= 5; ++link) Join(link, "w" + std::to_string(link));
  Turn();
  actions_.clear();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  const auto status = Status();
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w5") << "the spare";
  EXPECT_EQ(status.pipelines(0).stages(1).worker().worker_id(), "w2") << "as before";
  EXPECT_EQ(status.pipelines(1).epoch(), 2u) << "nothing happened to it";
  EXPECT_EQ(status.pipelines(0).epoch(), 4u) << "an end and a beginning, counted over both";
  EXPECT_EQ(ActionsOf<SendToWorker>().size(), 2u);
}

// Whoever comes while a reduced pipeline still loads is looked at when it serves.
TEST_F(EngineFormingTest, AReducedPipelineGrowsByThoseThatCameWhileItLoaded) {
  EngineOptions options = TinyEngineOptions(2);
  options.lease = std::chrono::minutes(1);
  options.load_timeout = std::chrono::minutes(1);
  Serve(options, 2);
  ASSERT_EQ(Status().pipelines(0).state(), "serving");
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  now_ += options.reform_after;
  Turn();
  ASSERT_EQ(Status().pipelines(0).stages_size(), 1) << "of the one that is left";
  Join(3, "w2");
  Turn();
  now_ += 2 * options.reform_after;
  Turn();
  ASSERT_EQ(Status().pipelines(0).stages_size(), 1) << "it loads";
  Ready(1);
  Turn();
  now_ += milliseconds(1);
  Turn();
  EXPECT_EQ(Status().pipelines(0).stages_size(), 2);
}

TEST_F(EngineFormingTest, LoadingTakesTooLong) {
  EngineOptions options = TinyEngineOptions(2);
  options.load_timeout = milliseconds(2000);
  Start(options);
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  Ready(1);
  actions_.clear();
  now_ += milliseconds(1400);
  Beat(1, 1);
  Beat(2, 1);
  Turn();
  now_ += milliseconds(600);
  Beat(1, 1);
  Turn();
  ASSERT_FALSE(ActionsOf<ServingChanged>().empty() && ActionsOf<SendToWorker>().empty());
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("loading on w2 did not get on for 2 s"));
}

// Bytes of the checkpoint that come over a slow link for hours are no reason to begin anew; a link
// over which nothing comes is.
TEST_F(EngineFormingTest, AFetchThatGetsOnMayTakeLong) {
  EngineOptions options = TinyEngineOptions(2);
  options.load_timeout = milliseconds(2000);
  Start(options);
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  Ready(1);
  const uint64_t first = epoch();
  const auto pass = [&](int64_t fetched, int64_t all) {
    now_ += milliseconds(1000);
    Beat(1, 1);
    Beat(2, 1);
    v1::Frame frame;
    frame.set_epoch(first);
    frame.mutable_shard_progress()->set_fetched_bytes(fetched);
    frame.mutable_shard_progress()->set_fetch_bytes(all);
    Send(2, frame);
    Turn();
  };
  pass(50, 60);  // headers
  for (int64_t second = 0; second < 20; ++second) pass(second, 1000);
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
  EXPECT_EQ(epoch(), first);
  pass(19, 1000);
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
  pass(19, 1000);
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("loading on w2 did not get on for 2 s"));
}

// Neither counts that go up and down nor ever other bytes are a fetch that gets on.
TEST_F(EngineFormingTest, AFetchThatOnlyMovesIsLate) {
  for (const bool other_bytes : {false, true}) {
    SCOPED_TRACE(other_bytes);
    EngineOptions options = TinyEngineOptions(1);
    options.load_timeout = milliseconds(2000);
    Start(options);
    Join(1, "w1");
    Turn();
    const uint64_t first = epoch();
    int passes = 0;
    for (; passes < 30 && Status().pipelines(0).epoch() == first; ++passes) {
      now_ += milliseconds(1000);
      Beat(1, 1);
      v1::Frame frame;
      frame.set_epoch(first);
      v1::ShardProgress* const progress = frame.mutable_shard_progress();
      progress->set_fetched_bytes(passes % 2);
      progress->set_fetch_bytes(other_bytes ? 1 + passes % 2 : 2);
      Send(1, frame);
      Turn();
    }
    EXPECT_LT(passes, other_bytes ? 13 : 6);
  }
}

TEST_F(EngineFormingTest, AWorkerComesBackBeforeItsOldLinkIsSeenToBeDead) {
  Serve(TinyEngineOptions(1));
  now_ += milliseconds(1499);
  actions_.clear();
  Join(2, "w1");
  EXPECT_TRUE(absl::IsAlreadyExists(ActionsOf<CloseWorker>().at(0).reason));
  now_ += milliseconds(1);
  actions_.clear();
  Join(3, "w1");
  EXPECT_EQ(ActionsOf<CloseWorker>().at(0).link, LinkKey(1)) << "its lease is over";
  EXPECT_EQ(ActionsOf<SendToWorker>().at(0).link, LinkKey(3));
  Turn();
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
}

}  // namespace
}  // namespace tutti::coordinator
