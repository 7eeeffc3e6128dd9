#include "worker/executor_watch.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "worker/limits.h"

namespace tutti::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLease = milliseconds(1500);
constexpr Duration kInterval = milliseconds(250);

// Processors of a test's making.
class FakeProcessors : public ProcessorMeter {
 public:
  Duration time() const override { return time_; }
  int ready_threads() const override { return ready_; }
  Duration time_{};
  int ready_ = 0;
};

class FakeWork : public kernels::WorkMeter {
 public:
  uint64_t slices_done() const override { return slices_; }
  kernels::Work LargestSlice(int64_t, int64_t, int64_t) const override { return {}; }
  uint64_t slices_ = 0;
};

class ExecutorWatchTest : public ::testing::Test {
 protected:
  // The first beat that says that the executor is stuck, of those of `time`; nothing: none does.
  // `share`: of the processors that the process gets.
  std::optional<v1::Beat> FirstStuck(Duration time, double share) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += kInterval;
      processors_.time_ +=
          std::chrono::duration_cast<Duration>(kInterval * share * processors_.ready_);
      const v1::Beat beat = watch_.Look(now_);
      if (beat.allowed_us() > 0 && beat.unmoved_us() > beat.allowed_us()) return beat;
    }
    return std::nullopt;
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  Position position_;
  FakeProcessors processors_;
  FakeWork work_;
  ExecutorWatch watch_{&position_, &work_, &processors_};
};

// An operator of three leases, of which nothing comes back to the executor before its end.
TEST_F(ExecutorWatchTest, AnOperatorOfManySlicesIsNotStuck) {
  position_.Begin(Activity::kStep, kSliceTimeMin);
  uint64_t progress = watch_.Look(now_).progress();
  for (const Instant end = now_ + 3 * kLease; now_ < end;) {
    ++work_.slices_;
    EXPECT_FALSE(FirstStuck(2 * kInterval, 1).has_value());
    const v1::Beat beat = watch_.Look(now_);
    EXPECT_GT(beat.progress(), progress);
    EXPECT_EQ(beat.activity(), "computing a step");
    progress = beat.progress();
  }
}

TEST_F(ExecutorWatchTest, AnExecutorThatDoesNotMoveIsStuckSoonAfterItShouldHave) {
  for (const int ready : {0, 1, 4}) {  // it sleeps, it spins, its threads spin
    processors_.ready_ = ready;
    position_.Begin(Activity::kStep, kSliceTimeMin);
    watch_.Look(now_);
    const Instant began = now_;
    const std::optional<v1::Beat> stuck = FirstStuck(seconds(60), 1);
    ASSERT_TRUE(stuck.has_value()) << ready;
    EXPECT_EQ(stuck->activity(), "computing a step");
    EXPECT_GT(now_ - began, kSliceTimeMin) << ready;
    EXPECT_LT(now_ - began, kSliceTimeMin + seconds(2)) << ready;
  }
}

TEST_F(ExecutorWatchTest, TimeWithoutProcessorsCountsLittle) {
  processors_.ready_ = 2;
  position_.Begin(Activity::kStep, kSliceTimeMin);
  watch_.Look(now_);
  const Instant began = now_;
  EXPECT_FALSE(FirstStuck(milliseconds(7500), 0.125).has_value()) << "a second of work";
  ASSERT_TRUE(FirstStuck(seconds(60), 0.125).has_value());
  EXPECT_LT(now_ - began, 8 * kSliceTimeMin + seconds(2));
  // Even with none at all there is an end.
  position_.Begin(Activity::kStep, kSliceTimeMin);
  watch_.Look(now_);
  const Instant starved = now_;
  ASSERT_TRUE(FirstStuck(seconds(120), 0).has_value());
  EXPECT_LT(Seconds(now_ - starved), Seconds(kSliceTimeMin) / kProcessorShareMin + 2);
}

TEST_F(ExecutorWatchTest, WhatHasNoLimitIsNeverStuck) {
  for (const Activity activity : {Activity::kIdle, Activity::kLoading, Activity::kLinks}) {
    position_.Begin(activity);
    EXPECT_FALSE(FirstStuck(seconds(120), 1).has_value()) << ActivityName(activity);
    EXPECT_EQ(watch_.Look(now_).allowed_us(), 0);
    EXPECT_GE(watch_.Look(now_).unmoved_us(), 119'000'000);
  }
}

TEST_F(ExecutorWatchTest, AWaitForAnotherRankIsNamedAndDoesNotCount) {
  const std::string other = "w7";
  position_.Begin(Activity::kStep, kSliceTimeMin);
  watch_.Look(now_);
  {
    const Position::Meanwhile waiting(&position_, Activity::kRank, other);
    EXPECT_FALSE(FirstStuck(seconds(10), 1).has_value());
    EXPECT_EQ(watch_.Look(now_).waiting_for(), "w7");
    EXPECT_EQ(watch_.Look(now_).activity(), "waiting for another rank");
  }
  // Back at the step, without having moved.
  const Instant back = now_;
  ASSERT_TRUE(FirstStuck(seconds(10), 1).has_value());
  EXPECT_GT(now_ - back, kSliceTimeMin);
  EXPECT_EQ(watch_.Look(now_).waiting_for(), "");
}

TEST_F(ExecutorWatchTest, TheSystemSaysWhatThisProcessGot) {
  const SystemProcessorMeter meter;
  const Duration before = meter.time();
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 20'000'000; ++i) sum = sum + i;
  EXPECT_GT(meter.time(), before);
  EXPECT_GE(meter.ready_threads(), 0);
}

}  // namespace
}  // namespace tutti::worker
