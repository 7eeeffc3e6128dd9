#include "coordinator/requests/place_pace.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PlacePaceTest : public ::testing::Test {
 protected:
  void Pass(Duration time) { now_ += time; }
  // One more place comes free after `time`.
  void Free(Duration time, bool busy = true) {
    Pass(time);
    pace_.Observe(++freed_, busy, now_);
  }
  Duration SendAway(int64_t lacking = 1) { return pace_.SendAway(lacking, now_); }

  PlacePace pace_;
  Instant now_ = Instant() + std::chrono::hours(1);
  uint64_t freed_ = 0;
};

TEST_F(PlacePaceTest, NothingMeasuredIsTheOrdinaryDelay) {
  EXPECT_EQ(SendAway(), kRetryDelayUnknown);
  pace_.Observe(0, /*busy=*/true, now_);
  Pass(seconds(1));
  EXPECT_EQ(SendAway(1000), kRetryDelayUnknown);
}

TEST_F(PlacePaceTest, ThoseSentAwayStandInLine) {
  pace_.Observe(0, true, now_);
  Free(milliseconds(400));
  EXPECT_EQ(SendAway(), milliseconds(400));
  EXPECT_EQ(SendAway(), milliseconds(800));
  EXPECT_EQ(SendAway(3), milliseconds(2000)) << "it lacks three places";
  Free(milliseconds(400));
  EXPECT_EQ(SendAway(), milliseconds(400)) << "a place came free: the line begins anew";
}

TEST_F(PlacePaceTest, FollowsThePace) {
  pace_.Observe(0, true, now_);
  for (int i = 0; i < 60; ++i) Free(milliseconds(200));
  EXPECT_EQ(SendAway(), milliseconds(200));
  for (int i = 0; i < 60; ++i) Free(milliseconds(2000));
  EXPECT_GT(SendAway(), milliseconds(1900));
  // Several at once are so many.
  freed_ += 9;
  for (int i = 0; i < 60; ++i, freed_ += 9) Free(milliseconds(2000));
  EXPECT_LT(SendAway(), milliseconds(230));
}

TEST_F(PlacePaceTest, TimeWithoutRequestsDoesNotCount) {
  pace_.Observe(0, true, now_);
  Free(milliseconds(300), /*busy=*/false);
  Pass(std::chrono::hours(1));
  EXPECT_EQ(SendAway(), milliseconds(300));
  pace_.Observe(freed_, true, now_);
  Free(milliseconds(300));
  EXPECT_EQ(SendAway(), milliseconds(300));
}

TEST_F(PlacePaceTest, AServiceThatStandsStillIsGivenLonger) {
  pace_.Observe(0, true, now_);
  Free(milliseconds(200));
  Pass(seconds(7));
  EXPECT_EQ(SendAway(), seconds(7));
  Pass(std::chrono::hours(7));
  EXPECT_EQ(SendAway(), kRetryDelayMax);
}

TEST_F(PlacePaceTest, StaysWithinItsBounds) {
  pace_.Observe(0, true, now_);
  Free(std::chrono::nanoseconds(1));
  EXPECT_EQ(SendAway(), kRetryDelayMin);
  EXPECT_EQ(SendAway(INT64_MAX / 2), seconds(1)) << "a billion places, a nanosecond each";
  pace_ = PlacePace();
  freed_ = 0;
  pace_.Observe(freed_, true, now_);
  Free(seconds(1));
  EXPECT_EQ(SendAway(59), seconds(59));
  Free(seconds(1));
  EXPECT_EQ(SendAway(60), kRetryDelayMax);
  EXPECT_EQ(SendAway(1), kRetryDelayMax);
  EXPECT_EQ(SendAway(INT64_MAX / 2), kRetryDelayMax);
  EXPECT_EQ(SendAway(0), kRetryDelayMax);
}

TEST(DelayText, IsShort) {
  EXPECT_EQ(DelayText(milliseconds(100)), "0.1 s");
  EXPECT_EQ(DelayText(milliseconds(1249)), "1.2 s");
  EXPECT_EQ(DelayText(seconds(5)), "5 s");
}

}  // namespace
}  // namespace tutti::coordinator
