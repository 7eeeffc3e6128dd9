#include "coordinator/requests/stranded.h"

#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

TEST(StrandedTest, TheEndOfPatienceIsTheEarliestSinceTheLastReset) {
  const Instant now = Instant() + std::chrono::hours(1);
  const Duration patience = std::chrono::seconds(60);
  Stranded stranded(patience);
  EXPECT_EQ(stranded.until(), kInstantNever);
  Sequence first, second;
  first.arrival = 1;
  second.arrival = 2;
  stranded.Add(&first, now);
  stranded.Add(&second, now + std::chrono::seconds(5));
  EXPECT_EQ(stranded.size(), 2u);
  EXPECT_EQ(stranded.until(), now + patience);
  EXPECT_EQ(stranded.EndOf(second), now + std::chrono::seconds(65));
  stranded.Reset();
  EXPECT_EQ(stranded.until(), kInstantNever);
  stranded.WaitUntil(stranded.EndOf(second));
  EXPECT_EQ(stranded.until(), now + std::chrono::seconds(65));
}

TEST(StrandedTest, WhatIsErasedWasThereOnce) {
  Stranded stranded(std::chrono::seconds(60));
  Sequence sequence;
  EXPECT_FALSE(stranded.Erase(sequence));
  stranded.Add(&sequence, Instant());
  EXPECT_TRUE(stranded.Holds(sequence));
  EXPECT_TRUE(stranded.Erase(sequence));
  EXPECT_FALSE(stranded.Erase(sequence));
  EXPECT_EQ(stranded.size(), 0u);
}

}  // namespace
}  // namespace tutti::coordinator
