// The two signals of a worker at the engine: that it is heard of at all, and that its executor
// moves. And a coordinator that stood still, which blames nobody for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr Duration kBeat = milliseconds(250);
constexpr int64_t kSecondUs = 1'000'000;

// One worker, with a step to do.
class EngineLivenessTest : public EngineTest {
 protected:
  void SetUp() override {
    options_ = TinyEngineOptions(1);
    Serve(options_);
    Arrive(1, 10, 5);
    Turn();
    actions_.clear();
  }
  void BeatAtWork(uint64_t progress, int64_t unmoved_us, int64_t allowed_us,
                  const std::string& activity = "computing a step") {
    v1::Frame frame;
    v1::Beat* const beat = frame.mutable_beat();
    beat->set_progress(progress);
    beat->set_activity(activity);
    beat->set_unmoved_us(unmoved_us);
    beat->set_allowed_us(allowed_us);
    Send(1, frame);
    Turn();
  }
  // Why the worker was lost; "": it was not.
  std::string Lost() const {
    const auto closed = ActionsOf<CloseWorker>();
    return closed.empty() ? "" : std::string(closed[0].reason.message());
  }
  EngineOptions options_;
};

TEST_F(EngineLivenessTest, AStepThatTakesManyLeasesIsDoneAtLast) {
  for (uint64_t beat = 1; beat <= 80; ++beat) {
    now_ += kBeat;
    BeatAtWork(beat, 0, kSecondUs);
    ASSERT_EQ(Lost(), "") << beat;
  }
  Send(1, ResultFrame(epoch(), 1));
}

// A machine that gives its worker a tenth of its processors: the position moves every five seconds.
TEST_F(EngineLivenessTest, ASliceMayTakeAsLongAsTheWorkerMayAllowItself) {
  for (int beat = 0; beat < 80; ++beat) {
    now_ += kBeat;
    BeatAtWork(beat / 20, beat % 20 * 250'000, 10 * kSecondUs);
    ASSERT_EQ(Lost(), "") << beat;
  }
}

TEST_F(EngineLivenessTest, AStuckExecutorIsNamedWithWhatItWasAt) {
  const Instant began = now_;
  for (int64_t unmoved_us = 0; Lost().empty() && now_ < began + seconds(60);) {
    now_ += kBeat;
    BeatAtWork(7, unmoved_us, kSecondUs);
    unmoved_us += 250'000;
  }
  EXPECT_THAT(Lost(), HasSubstr("its executor is stuck computing a step: for 1250 ms without "
                                "progress, of 1000 ms that it may take"));
  EXPECT_LT(now_ - began, seconds(1) + seconds(2));
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("worker w1 (stage 0) was lost: its executor"));
}

TEST_F(EngineLivenessTest, SilenceIsNamedWhenTheLeaseIsOver) {
  BeatAtWork(1, 0, 60 * kSecondUs);
  now_ += options_.lease - milliseconds(1);
  Turn();
  EXPECT_EQ(Lost(), "");
  now_ += milliseconds(1);
  Turn();
  EXPECT_THAT(Lost(), HasSubstr("its lease expired, nothing was heard of it for 1500 ms"));
}

// Back from work with nothing done, and nothing to do that it knows of.
TEST_F(EngineLivenessTest, AnIdleExecutorThatOwesAStepIsStuck) {
  for (int beat = 0; beat < 40; ++beat) {
    now_ += kBeat;
    BeatAtWork(beat, 0, kSecondUs);
  }
  const Instant idle = now_;
  while (Lost().empty() && now_ < idle + seconds(60)) {
    now_ += kBeat;
    BeatAtWork(39, 0, 0, "");
  }
  EXPECT_THAT(Lost(), HasSubstr("no progress on step 1"));
  EXPECT_LE(now_ - idle, StuckAfter(options_.lease, options_.beat_interval) + 2 * kBeat);
}

// A link from the previous stage that loses everything: the executor beside it moves for the last
// time just after a beat, and the engine's thread turns no sooner than it must.
TEST_F(EngineLivenessTest, AHalfOpenLinkIsNamedWithinTwoLeases) {
  now_ += kBeat;
  BeatAtWork(1, 0, 0, "");
  const Instant cut = now_;
  now_ += kBeat;
  BeatAtWork(2, 0, 0, "");
  Instant last_beat = now_;
  while (Lost().empty() && now_ < cut + seconds(60)) {
    now_ += kTurnInterval;
    if (now_ - last_beat >= kBeat) {
      last_beat = now_;
      BeatAtWork(2, 0, 0, "");
    }
    Turn();
  }
  EXPECT_THAT(Lost(), HasSubstr("no progress on step 1"));
  EXPECT_LE(now_ - cut, 2 * options_.lease);
  EXPECT_GT(now_ - cut, options_.lease + 2 * kBeat) << "what is on its way has time to come";
}

TEST_F(EngineLivenessTest, NoWorkerTalksItselfOut) {
  const Instant began = now_;
  while (Lost().empty() && now_ < began + seconds(600)) {
    now_ += kBeat;
    BeatAtWork(1, 0, INT64_MAX);
  }
  EXPECT_THAT(Lost(), HasSubstr("its executor is stuck"));
  EXPECT_LE(now_ - began, kExecutorPatience + 2 * kBeat);
}

TEST_F(EngineLivenessTest, ABeatThatMakesNoSenseIsRefused) {
  struct Case {
    int64_t unmoved_us, allowed_us;
    std::string activity;
    std::string why;
  };
  for (const Case& c :
       {Case{-1, 5, "a", "no time is below 0"}, Case{5, INT64_MIN, "a", "no time is below 0"},
        Case{0, 5, std::string(kActivityBytesMax + 1, 'a'), "129 bytes"},
        Case{0, 5, "a\nb", "printable ASCII"}, Case{INT64_MAX, INT64_MAX, "a", "stuck a: for"}}) {
    SetUp();
    BeatAtWork(1, c.unmoved_us, c.allowed_us, c.activity);
    EXPECT_THAT(Lost(), HasSubstr(c.why));
  }
  SetUp();
  BeatAtWork(1, 0, 5, std::string(kActivityBytesMax, 'a'));
  EXPECT_EQ(Lost(), "");
}

TEST_F(EngineLivenessTest, WhatABeatSaysOfAGpuIsSeenOrRefused) {
  v1::Frame frame;
  v1::Beat* const beat = frame.mutable_beat();
  beat->set_progress(1);
  beat->mutable_gpu()->set_name("NVIDIA H200");
  beat->mutable_gpu()->set_total_bytes(80);
  beat->mutable_gpu()->set_own_bytes(60);
  Send(1, frame);
  now_ += seconds(1);
  v1::GetStatusResponse status;
  engine_->FillStatus(now_, &status);
  const v1::GpuReading& gpu = status.pipelines(0).stages(0).worker().gpu();
  EXPECT_EQ(gpu.name(), "NVIDIA H200");
  EXPECT_DOUBLE_EQ(gpu.age_seconds(), 1);
  EXPECT_GT(gpu.cuda_bytes() + status.pipelines(0).stages(0).actual().weights(), 0);
  beat->mutable_gpu()->set_own_bytes(81);
  Send(1, frame);
  Turn();
  EXPECT_THAT(Lost(), HasSubstr("81 of the 80 bytes of its GPU are held"));
}

// ---- a coordinator that stood still

TEST_F(EngineLivenessTest, AStallEndsNoLease) {
  for (const Duration stall : {seconds(3), seconds(8), seconds(3600)}) {
    SetUp();
    now_ += milliseconds(1400);
    Turn();
    now_ += stall;
    Give(Stalled{stall});
    Turn();
    EXPECT_EQ(Lost(), "");
    EXPECT_GT(engine_->next_deadline(), now_);
    now_ += milliseconds(99);
    Turn();
    EXPECT_EQ(Lost(), "");
    now_ += milliseconds(1);
    Turn();
    EXPECT_THAT(Lost(), HasSubstr("its lease expired")) << "it is silent all the same";
  }
}

TEST_F(EngineLivenessTest, AStallIsNoTimeWithoutProgress) {
  now_ += milliseconds(1000);
  Beat(1, 0);
  now_ += seconds(8);
  Give(Stalled{seconds(8)});
  Turn();
  Beat(1, 0);
  now_ += milliseconds(1399);
  Beat(1, 0);
  Turn();
  EXPECT_EQ(Lost(), "");
  now_ += milliseconds(1);
  Beat(1, 0);
  Turn();
  EXPECT_THAT(Lost(), HasSubstr("no progress on step 1"));
}

TEST_F(EngineLivenessTest, AStallIsNoTimeOfLoading) {
  options_.load_timeout = seconds(2);
  Start(options_);
  Join(1, "w1");
  Turn();
  now_ += seconds(8);
  Give(Stalled{seconds(8)});
  Turn();
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
  for (int beat = 0; beat < 7; ++beat) {
    now_ += kBeat;
    Beat(1, beat);
    Turn();
  }
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
  now_ += kBeat;
  Turn();
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("did not get on for 2 s"));
}

TEST_F(EngineLivenessTest, AStallIsHeldAgainstNoWorkOfAnExecutor) {
  BeatAtWork(1, 0, 60 * kSecondUs);
  for (int stall = 0; stall < 10; ++stall) {
    now_ += seconds(8);
    Give(Stalled{seconds(8)});
    BeatAtWork(1, 0, 60 * kSecondUs);
    ASSERT_EQ(Lost(), "");
  }
}

}  // namespace
}  // namespace tutti::coordinator
