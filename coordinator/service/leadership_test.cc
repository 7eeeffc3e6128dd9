#include "coordinator/service/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// Does as it is told.
class FakeLease : public LeaderLease {
 public:
  explicit FakeLease(const Clock* clock) : clock_(clock) {}
  absl::StatusOr<std::optional<uint32_t>> TryAcquire() override {
    if (attempt.ok() && attempt->has_value()) time_.Set(clock_->Now() + seconds(3));
    return attempt;
  }
  absl::Status Keep() override {
    ++kept;
    if (keeps.ok()) time_.Set(clock_->Now() + seconds(3));
    return keeps;
  }
  void Resign() override { ++resigned; }
  Duration keep_interval() const override { return seconds(1); }
  const std::string& leader() const override { return leads; }
  const std::string& about() const override { return about_; }

  absl::StatusOr<std::optional<uint32_t>> attempt = std::nullopt;
  absl::Status keeps;
  std::string leads = "c0";
  int kept = 0, resigned = 0;

 private:
  const Clock* const clock_;
  const std::string about_ = "the lease";
};

class LeadershipTest : public testing::Test {
 protected:
  Instant Turn() { return leadership_.Turn(); }
  void Lead() {
    lease_.attempt = 7;
    Turn();
  }

  ManualClock clock_;
  FakeLease lease_{&clock_};
  std::vector<std::string> said_, lost_;
  std::vector<uint32_t> led_;
  Leadership leadership_{
      &lease_,
      &clock_,
      {.on_standing_by = [this](const std::string& why) { said_.push_back(why); },
       .on_lead = [this](uint32_t number) { led_.push_back(number); },
       .on_lost = [this](const std::string& why) { lost_.push_back(why); }}};
};

TEST_F(LeadershipTest, StandsByAndSaysWhoLeadsWhenThatChanges) {
  EXPECT_EQ(Turn(), clock_.Now() + kStandbyLookInterval);
  Turn();
  lease_.leads = "c1";
  Turn();
  lease_.attempt = absl::UnavailableError("nobody answers");
  EXPECT_EQ(Turn(), clock_.Now() + kLeaseRetryInterval);
  EXPECT_THAT(said_, ElementsAre("c0 leads, by the lease", "c1 leads, by the lease",
                                 "cannot ask the lease: nobody answers"));
  Lead();
  EXPECT_THAT(led_, ElementsAre(7));
}

TEST_F(LeadershipTest, RenewsInTimeForEver) {
  Lead();
  for (int i = 0; i < 1000; ++i) {
    clock_.Advance(seconds(1));
    ASSERT_EQ(Turn(), clock_.Now() + seconds(1));
  }
  EXPECT_EQ(lease_.kept, 1000);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(LeadershipTest, EndsBeforeALeaseRunsOutThatCannotBeRenewed) {
  Lead();
  lease_.keeps = absl::UnavailableError("no answer");
  const Instant until = lease_.time().until();
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(seconds(1));
    EXPECT_LE(Turn(), until);
    EXPECT_TRUE(lost_.empty());
  }
  clock_.Set(Turn());
  EXPECT_EQ(clock_.Now(), until);
  EXPECT_EQ(Turn(), kInstantNever);
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_THAT(lost_[0], HasSubstr("the lease is lost"));
  Turn();
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(LeadershipTest, OneThatWasStoppedForLongerAsksForNothingAndEnds) {
  Lead();
  clock_.Advance(seconds(60));
  Turn();
  EXPECT_EQ(lost_.size(), 1u);
  EXPECT_EQ(lease_.kept, 0) << "a late renewal might be granted";
}

TEST_F(LeadershipTest, EndsAtOnceWhenAnotherHasTheLease) {
  Lead();
  lease_.keeps = absl::AbortedError("another may lead");
  clock_.Advance(seconds(1));
  Turn();
  EXPECT_THAT(lost_, ElementsAre("the lease is lost: another may lead"));
}

TEST_F(LeadershipTest, GivesTheLeaseBackOnceAtItsEnd) {
  Lead();
  leadership_.Stop();
  leadership_.Stop();
  EXPECT_EQ(lease_.resigned, 1);
}

TEST(LeadershipThreadTest, TurnsByItself) {
  const SystemClock clock;
  FakeLease lease(&clock);
  lease.attempt = 9;
  std::atomic<uint32_t> led = 0;
  Leadership leadership(&lease, &clock,
                        {.on_standing_by = [](const std::string&) {},
                         .on_lead =
                             [&](uint32_t number) {
                               led = number;
                               led.notify_all();
                             },
                         .on_lost = [](const std::string&) {}});
  leadership.Start();
  led.wait(0);
  leadership.Stop();
  EXPECT_EQ(led, 9u);
  EXPECT_EQ(lease.resigned, 1);
}

}  // namespace
}  // namespace tutti::coordinator
