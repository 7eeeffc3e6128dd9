#include "door/refusal_pause.h"

#include <gtest/gtest.h>

#include "door/limits.h"
#include "transport/limits.h"

namespace tutti::door {
namespace {

using std::chrono::seconds;

constexpr int64_t kSecond = transport::kLargeRefusalBytesPerSecond;  // bytes that cost a second
constexpr Duration kOwnPauseMax = Duration(seconds(1)) * kOwnPauseBytesMax / kSecond;
constexpr int64_t kForgiven = kSecond * transport::kPausesForgiven.count();

struct RefusalPauseTest : testing::Test {
  Duration After(int64_t bytes) { return PauseAfterRefusal(&credit, bytes, now); }

  transport::ConnectionCredit credit;
  Instant now = Instant::min() + std::chrono::hours(1);
};

TEST_F(RefusalPauseTest, TheFirstBytesAreForgiven) {
  EXPECT_EQ(After(kForgiven), Duration::zero());
  EXPECT_EQ(After(kSecond), seconds(1));
  EXPECT_EQ(After(2 * kSecond), seconds(3)) << "the pause before is not over";
  now += seconds(3);
  EXPECT_EQ(After(kSecond), seconds(1)) << "they are forgiven once";
}

TEST_F(RefusalPauseTest, SmallRequestsWaitForTheirOwnBytesOnly) {
  EXPECT_EQ(After(kOwnPauseBytesMax), Duration::zero()) << "and for none that are forgiven";
  After(kForgiven + 5 * kSecond);
  EXPECT_EQ(After(kSmallRequestBytes), Duration::zero());
  EXPECT_EQ(After(kOwnPauseBytesMax), kOwnPauseMax);
  EXPECT_GT(After(kOwnPauseBytesMax + 1), seconds(5));
}

// Otherwise an account would send all it likes in requests that are just small enough.
TEST_F(RefusalPauseTest, WhatSmallRequestsSendIsTheAccountsToo) {
  After(kForgiven);
  for (int i = 0; i < 8; ++i) After(kOwnPauseBytesMax);
  EXPECT_EQ(After(kSecond), seconds(1) + 8 * kOwnPauseMax);
}

}  // namespace
}  // namespace tutti::door
