// The choice of who pauses: workers that fail by themselves, and not those that something outside
// has cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;

// One worker, whose link is cut every two seconds and which is back 100 ms later with its shard.
class EngineFaultsTest : public EngineTest {
 protected:
  // One look at the worker each 10 ms: it loads at once and does a step of its plans.
  void Work() {
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (sent.link != LinkKey(link_)) continue;
      if (sent.frame.has_assign_shard()) {
        loads_.push_back({sent.frame.epoch(), now_});
      } else if (sent.frame.has_step_plan()) {
        plans_.push_back(sent.frame.step_plan());
      }
    }
    for (const FinishRequest& finish : ActionsOf<FinishRequest>()) {
      finished_ += finish.status.ok() ? 1 : 0;
    }
    actions_.clear();
    for (const auto& [epoch, at] : std::exchange(loads_, {})) {
      if (fails_to_load_) {
        v1::Frame failure;
        failure.set_epoch(epoch);
        failure.mutable_failure()->set_message("reading model.safetensors failed");
        ++attempts_;
        Send(link_, failure);
        Join(++link_, "w1");
      } else {
        plans_.clear();
        Ready(link_, epoch);
      }
    }
    for (const v1::StepPlan& plan : std::exchange(plans_, {})) {
      Send(link_, ResultOf(epoch(), plan));
    }
    if (now_ >= next_beat_) {
      Beat(link_, 0);
      next_beat_ = now_ + milliseconds(250);
    }
    Turn();
    now_ += milliseconds(10);
  }

  uint64_t link_ = 1;
  bool fails_to_load_ = false;
  int attempts_ = 0;
  int finished_ = 0;
  std::vector<std::pair<uint64_t, Instant>> loads_;
  std::vector<v1::StepPlan> plans_;
  Instant next_beat_{};
};

TEST_F(EngineFaultsTest, RequestsFinishBetweenCutsOfALink) {
  Start(TinyEngineOptions(1));
  Join(1, "w1");
  Turn();
  uint64_t requests = 0;
  for (int cut = 0; cut < 30; ++cut) {
    for (int i = 0; i < 190; ++i) {
      if (i % 50 == 10) Arrive(++requests, 5, 10);
      Work();
    }
    Give(WorkerLost{LinkKey(link_), absl::UnavailableError("connection reset by peer")});
    Turn();
    plans_.clear();
    now_ += milliseconds(100);
    Join(++link_, "w1");
    Turn();
  }
  RecordProperty("finished", finished_);
  printf("%d of %d requests finished\n", finished_, static_cast<int>(requests));
  EXPECT_GE(finished_, static_cast<int>(requests) * 9 / 10);
}

TEST_F(EngineFaultsTest, AWorkerThatFailsToLoadIsNotTriedInATightLoop) {
  Start(TinyEngineOptions(1));
  fails_to_load_ = true;
  Join(1, "w1");
  Turn();
  for (int i = 0; i < 6000; ++i) Work();
  printf("%d attempts in a minute\n", attempts_);
  EXPECT_GE(attempts_, 6);
  EXPECT_LE(attempts_, 12) << "pauses double up to 16 s";
}

// Status tells it for as long as nothing has served, so that `tutti up` need not try for ever.
TEST_F(EngineFaultsTest, WhatNoWorkerCanLoadIsTold) {
  Start(TinyEngineOptions(2));
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  for (const bool lasting : {false, true}) {
    v1::Frame failure;
    failure.set_epoch(epoch());
    failure.mutable_failure()->set_message("a scale is nan");
    failure.mutable_failure()->set_lasting(lasting);
    Send(lasting ? 3 : 2, failure);
    EXPECT_EQ(Status().cannot_load(), lasting ? "worker w2 (stage 1): a scale is nan" : "");
    now_ += std::chrono::minutes(1);
    Beat(1, 0);
    Join(lasting ? 4 : 3, "w2");
    Turn();
  }
  Ready(1);
  EXPECT_NE(Status().cannot_load(), "");
  Ready(4);
  Turn();
  EXPECT_TRUE(Status().serving()) << Status().why_not_serving();
  EXPECT_EQ(Status().cannot_load(), "");
}

TEST_F(EngineFaultsTest, WhatOneWorkerCannotLoadWhileAnotherServesIsNotWhatNoWorkerCan) {
  EngineOptions options = TinyEngineOptions(1);
  options.num_pipelines = 2;
  Start(options);
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  const uint64_t first = Status().pipelines(0).epoch(), second = Status().pipelines(1).epoch();
  Ready(1, first);
  Turn();
  ASSERT_TRUE(Status().serving()) << Status().why_not_serving();
  v1::Frame failure;
  failure.set_epoch(second);
  failure.mutable_failure()->set_message("a scale is nan");
  failure.mutable_failure()->set_lasting(true);
  Send(2, failure);
  EXPECT_EQ(Status().cannot_load(), "");
}

// It crashes of its shard each time: the link closes while it loads.
TEST_F(EngineFaultsTest, AWorkerThatCrashesWhenItLoadsPauses) {
  Start(TinyEngineOptions(1));
  int attempts = 0;
  const Instant end = now_ + std::chrono::seconds(60);
  Join(link_, "w1");
  while (now_ < end) {
    Turn();
    if (Status().pipelines(0).state() == "loading") {
      ++attempts;
      Give(WorkerLost{LinkKey(link_), absl::UnavailableError("connection reset by peer")});
      Join(++link_, "w1");
    }
    now_ += milliseconds(100);
    Beat(link_, 0);
  }
  EXPECT_GE(attempts, 6);
  EXPECT_LE(attempts, 12);
}

// The pause is the worker's: the other pipeline forms meanwhile.
TEST_F(EngineFaultsTest, OthersFormWhileOnePauses) {
  EngineOptions options = TinyEngineOptions(1);
  options.num_pipelines = 2;
  Start(options);
  Join(1, "w1");
  Turn();
  uint64_t link = 1;
  for (int i = 0; i < 5; ++i) {
    v1::Frame failure;
    failure.set_epoch(Status().pipelines(0).epoch());
    failure.mutable_failure()->set_message("no memory");
    Send(link, failure);
    Join(++link, "w1");
    Turn();
    if (i < 4) now_ += FormBackOff(i + 1);
    Turn();
  }
  EXPECT_THAT(Status().why_not_serving(), testing::HasSubstr("pausing after a failure of w1"));
  Join(++link, "w2");
  Turn();
  EXPECT_EQ(Status().pipelines(0).stages_size(), 1) << "at once";
  EXPECT_EQ(Status().pipelines(0).stages(0).worker().worker_id(), "w2");
}

}  // namespace
}  // namespace tutti::coordinator
