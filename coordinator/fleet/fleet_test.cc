// The members of the fleet alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/fleet/fleet_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- membership

TEST_F(FleetTest, AWorkerThatDiffersIsSentAway) {
  Start();
  v1::Hello hello = TinyHello("w1");
  hello.set_model_fingerprint("other");
  fleet_->HandleJoin({LinkKey(1), hello}, 0, now_, &actions_);
  ASSERT_EQ(ActionsOf<CloseWorker>(actions_).size(), 1u);
  EXPECT_EQ(Find(1), nullptr);
  EXPECT_EQ(fleet_->next_deadline(), kInstantNever);
  Join(2, "w1");
  EXPECT_TRUE(ActionsOf<SendToWorker>(actions_).at(0).frame.has_welcome());
}

// Protocol is what must be equal, and a numerics class that is settled.
TEST_F(FleetTest, AWorkerOfAnotherBuildJoinsAndTheLogSaysSo) {
  Start();
  v1::Hello hello = TinyHello("w1");
  hello.set_build("of\n tomorrow");
  fleet_->HandleJoin({LinkKey(1), hello}, 0, now_, &actions_);
  EXPECT_NE(Find(1), nullptr);
  EXPECT_TRUE(ActionsOf<SendToWorker>(actions_).at(0).frame.has_welcome());
  ASSERT_EQ(ActionsOf<Notice>(actions_).size(), 1u);
  EXPECT_THAT(ActionsOf<Notice>(actions_)[0].text,
              testing::HasSubstr("worker w1 is of build \"of\\n tomorrow\", this is \"build\""));
  fleet_->OpenClass({}, now_);
  EXPECT_FALSE(fleet_->UpdateClass({}, now_, &actions_));
  EXPECT_FALSE(
      fleet_->UpdateClass({.formed = true, .live = true, .begun_in = ""}, now_, &actions_));
  hello = TinyHello("w2");
  hello.set_numerics_class("class.2");
  fleet_->HandleJoin({LinkKey(2), hello}, 0, now_, &actions_);
  ASSERT_EQ(ActionsOf<CloseWorker>(actions_).size(), 1u);
  EXPECT_THAT(
      ActionsOf<CloseWorker>(actions_)[0].reason.ToString(),
      testing::HasSubstr("numerics class of the worker is \"class.2\", of the pipeline \"class\""));
}

TEST_F(FleetTest, ALeaseThatIsNotRenewedExpires) {
  Start();
  Join(1, "w1");
  Join(2, "w2");
  EXPECT_EQ(fleet_->leases_until(), now_ + options_.lease);
  now_ += milliseconds(1000);
  Hear(2);
  EXPECT_THAT(fleet_->FindExpired(now_), IsEmpty());
  now_ += milliseconds(500);
  const std::vector<LostWorker> expired = fleet_->FindExpired(now_);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].link, LinkKey(1));
  EXPECT_THAT(std::string(expired[0].reason.message()), HasSubstr("for 1500 ms"));
  fleet_->Remove(LinkKey(1), now_);
  fleet_->UpdateLeasesUntil();
  EXPECT_EQ(fleet_->leases_until(), now_ + milliseconds(1000)) << "that of w2";
}

TEST_F(FleetTest, AStallOfOursIsHeldAgainstNobody) {
  Start();
  Join(1, "w1");
  Join(2, "w2");
  now_ += milliseconds(1000);
  Hear(2);
  now_ += std::chrono::seconds(8);
  fleet_->Forgive(std::chrono::seconds(8), now_);
  EXPECT_THAT(fleet_->FindExpired(now_), IsEmpty());
  EXPECT_FALSE(fleet_->FindExpiredNamesake("w1", now_).has_value());
  fleet_->UpdateLeasesUntil();
  EXPECT_EQ(fleet_->leases_until(), now_ + milliseconds(500)) << "as much as was left before";
  fleet_->Forgive(std::chrono::hours(1), now_);
  EXPECT_EQ(Find(1)->last_heard, now_) << "not of the future";
}

TEST_F(FleetTest, ANamesakeIsInTheWayUntilItsLeaseHasRunOut) {
  Start();
  Join(1, "w1");
  now_ += milliseconds(1499);
  EXPECT_FALSE(fleet_->FindExpiredNamesake("w1", now_).has_value());
  now_ += milliseconds(1);
  EXPECT_FALSE(fleet_->FindExpiredNamesake("w2", now_).has_value());
  EXPECT_EQ(fleet_->FindExpiredNamesake("w1", now_).value().link, LinkKey(1));
}

TEST_F(FleetTest, ProgressThatGoesBackIsNotBelieved) {
  Start();
  Join(1, "w1");
  v1::Beat beat;
  beat.set_progress(5);
  now_ += milliseconds(10);
  EXPECT_TRUE(fleet_->HandleBeat(Find(1), beat, now_).ok());
  EXPECT_EQ(Find(1)->last_progress, now_);
  now_ += milliseconds(10);
  EXPECT_TRUE(fleet_->HandleBeat(Find(1), beat, now_).ok());
  EXPECT_EQ(Find(1)->last_progress, now_ - milliseconds(10)) << "alive, and no further";
  beat.set_progress(4);
  EXPECT_TRUE(absl::IsFailedPrecondition(fleet_->HandleBeat(Find(1), beat, now_)));
}

}  // namespace
}  // namespace tutti::coordinator
