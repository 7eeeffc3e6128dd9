#include "transport/receive_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::transport {
namespace {

TEST(ReceiveBudgetTest, AStrangerHasOneFrameAtATime) {
  const auto budget = ReceiveBudget::OfStranger();
  EXPECT_FALSE(budget->is_known());
  EXPECT_EQ(budget->frame_bytes_max(), kStrangerFrameBytesMax);
  auto first = budget->Count(100);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(budget->has_room());
  EXPECT_FALSE(budget->Count(1).has_value());
  first.reset();
  EXPECT_TRUE(budget->has_room());
  EXPECT_TRUE(budget->Count(1).has_value());
}

TEST(ReceiveBudgetTest, AKnownPeerIsBoundedInFramesAndInBytes) {
  const auto budget = ReceiveBudget::OfKnownPeer({.frames = 3, .bytes = 1000});
  std::vector<ReceiveBudget::Unread> unread;
  for (int i = 0; i < 3; ++i) unread.push_back(*budget->Count(1));
  EXPECT_FALSE(budget->has_room());
  unread.clear();
  // A frame larger than the budget passes when it is the only one: or it never would.
  unread.push_back(*budget->Count(5000));
  EXPECT_FALSE(budget->Count(1).has_value());
}

TEST(ReceiveBudgetTest, WhoWaitsIsCalledOnceWhenThereIsRoom) {
  const auto budget = ReceiveBudget::OfKnownPeer({.frames = 2});
  int calls = 0;
  EXPECT_FALSE(budget->WaitForRoom([&] { ++calls; }));  // there is
  auto a = budget->Count(1), b = budget->Count(1);
  EXPECT_TRUE(budget->WaitForRoom([&] { ++calls; }));
  EXPECT_EQ(calls, 0);
  a.reset();
  EXPECT_EQ(calls, 1);
  b.reset();
  EXPECT_EQ(calls, 1);
}

TEST(ReceiveBudgetTest, BecomingKnownMakesRoom) {
  const auto budget = ReceiveBudget::OfStranger();
  const auto hello = budget->Count(100);
  int calls = 0;
  EXPECT_TRUE(budget->WaitForRoom([&] { ++calls; }));
  budget->MarkKnown();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(budget->is_known());
  EXPECT_EQ(budget->frame_bytes_max(), kFrameBytesMax);
}

}  // namespace
}  // namespace tutti::transport
