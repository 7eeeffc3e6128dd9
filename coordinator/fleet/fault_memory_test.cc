#include "coordinator/fleet/fault_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

class FaultMemoryTest : public testing::Test {
 protected:
  const Instant now_ = Instant() + std::chrono::hours(1);
  FaultMemory faults_;
};

TEST_F(FaultMemoryTest, APauseGrowsWithEachFailureAndEndsWithALongServing) {
  EXPECT_EQ(faults_.PauseEnd("w1"), Instant());
  for (int32_t failures = 1; failures <= 10; ++failures) {
    faults_.OnFailure("w1", now_);
    EXPECT_EQ(faults_.PauseEnd("w1"), now_ + FormBackOff(failures)) << failures;
  }
  faults_.OnServing("w1");
  faults_.OnFailure("w1", now_);
  EXPECT_EQ(faults_.PauseEnd("w1"), now_ + FormBackOff(11)) << "it may fail with the first step";
  faults_.OnServedLong("w1");
  faults_.OnFailure("w1", now_);
  EXPECT_EQ(faults_.PauseEnd("w1"), now_) << "the first after that";
  EXPECT_EQ(faults_.PauseEnd("w2"), Instant());
}

TEST_F(FaultMemoryTest, LossesBeforeServingCountUntilItServes) {
  faults_.OnLostEarly("w1", now_);
  faults_.OnLostEarly("w1", now_);
  faults_.OnLostEarly("w1", now_);
  EXPECT_EQ(faults_.PauseEnd("w1"), now_ + FormBackOff(3));
  faults_.OnServing("w1");
  faults_.OnLostEarly("w1", now_);
  EXPECT_EQ(faults_.PauseEnd("w1"), now_);
}

TEST_F(FaultMemoryTest, WhoLeftTwiceInAMinuteComesAndGoes) {
  faults_.OnLeft("w1", now_);
  EXPECT_FALSE(faults_.ComesAndGoes("w1", now_));
  faults_.OnLeft("w1", now_ + std::chrono::seconds(2));
  EXPECT_TRUE(faults_.ComesAndGoes("w1", now_ + std::chrono::seconds(2)));
  EXPECT_FALSE(faults_.ComesAndGoes("w1", now_ + kComeAndGoTime));
  EXPECT_FALSE(faults_.ComesAndGoes("w2", now_));
}

TEST_F(FaultMemoryTest, ALinkIsAvoidedForAWhileInItsDirection) {
  faults_.OnLinkFailure("w0", "w1", "refused", now_);
  ASSERT_NE(faults_.FindLinkFault("w0", "w1", now_), nullptr);
  EXPECT_EQ(faults_.FindLinkFault("w0", "w1", now_)->why, "refused");
  EXPECT_EQ(faults_.FindLinkFault("w1", "w0", now_), nullptr);
  EXPECT_EQ(faults_.FindLinkFault("w0", "w1", now_ + kLinkAvoidedTime), nullptr);
  faults_.ForgetLinksOf("w1");
  EXPECT_EQ(faults_.FindLinkFault("w0", "w1", now_), nullptr) << "it was started again";
  faults_.OnLinkFailure("w0", "w1", "refused", now_);
  faults_.OnLinkWorked("w0", "w1");
  EXPECT_EQ(faults_.FindLinkFault("w0", "w1", now_), nullptr);
}

TEST_F(FaultMemoryTest, ManyNamesCostBoundedMemory) {
  for (size_t i = 0; i < 3 * kFaultsKept; ++i) {
    faults_.OnFailure(std::to_string(i), now_);
    faults_.OnLinkFailure(std::to_string(i), "w", "x", now_);
  }
  faults_.OnFailure("w1", now_);
  faults_.OnFailure("w1", now_);
  EXPECT_EQ(faults_.PauseEnd("w1"), now_ + FormBackOff(2));
}

}  // namespace
}  // namespace tutti::coordinator
