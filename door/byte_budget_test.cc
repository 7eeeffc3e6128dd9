#include "door/byte_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::door {
namespace {

TEST(ByteBudgetTest, AClientAloneGetsHalf) {
  ByteBudget budget(100);
  EXPECT_FALSE(budget.Take("a", 51).has_value());
  auto half = budget.Take("a", 50);
  ASSERT_TRUE(half.has_value());
  EXPECT_FALSE(budget.Take("a", 1).has_value());
  EXPECT_EQ(budget.held(), 50);
}

TEST(ByteBudgetTest, GreedyClientsLeaveAShareForNewOnes) {
  ByteBudget budget(1000);
  std::vector<ByteBudget::Charge> charges;
  // All of them take what they get, a byte at a time.
  for (bool any = true; any;) {
    any = false;
    for (const char* client : {"a", "b", "c", "d"}) {
      if (auto charge = budget.Take(client, 1)) {
        charges.push_back(*std::move(charge));
        any = true;
      }
    }
  }
  EXPECT_LE(budget.held(), 800);
  EXPECT_TRUE(budget.Take("new", 90).has_value());
}

TEST(ByteBudgetTest, AChargeEndsWithItsObject) {
  ByteBudget budget(100);
  {
    auto charge = budget.Take("a", 40);
    ASSERT_TRUE(charge.has_value());
    EXPECT_FALSE(charge->Resize(60));
    EXPECT_EQ(charge->bytes(), 40);
    EXPECT_TRUE(charge->Resize(10));
    EXPECT_EQ(budget.held(), 10);
    ByteBudget::Charge moved = *std::move(charge);
    charge.reset();
    EXPECT_EQ(budget.held(), 10);
    moved = {};
    EXPECT_EQ(budget.held(), 0);
  }
  EXPECT_TRUE(budget.Take("b", 50).has_value());
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace tutti::door
