// Support for tests of budgets that callers share: who owns what is taken of each, that a greedy
// caller is refused before all is gone, and what its neighbours still get.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "door/byte_budget.h"

namespace tutti::door {

struct SharedBudget {
  std::string name;
  int64_t total;  // in shares
  // Takes one share for an owner; false: it is refused. What is taken stays taken.
  std::function<bool(const std::string& owner)> take;
  // Two owners may have all of it between them.
  bool is_for_two = false;
};

// A budget of bytes, of one share's bytes each.
inline SharedBudget BytesInShares(const std::string& name, int64_t total, int64_t share) {
  struct Held {
    explicit Held(int64_t all) : budget(all) {}
    ByteBudget budget;
    std::vector<ByteBudget::Charge> charges;
  };
  auto held = std::make_shared<Held>(total);
  return {name, total / share, [held, share](const std::string& owner) {
            auto charge = held->budget.Take(owner, share);
            if (charge) held->charges.push_back(*std::move(charge));
            return charge.has_value();
          }};
}

// Lets `greedy` take of each all that it gets, then `modest`, then one more.
inline void WalkBudgets(const std::vector<SharedBudget>& budgets, const std::string& greedy,
                        const std::string& modest, const std::string& third) {
  for (const SharedBudget& budget : budgets) {
    SCOPED_TRACE(budget.name);
    const auto take_all = [&](const std::string& owner) {
      int64_t taken = 0;
      while (taken < 2 * budget.total && budget.take(owner)) ++taken;
      return taken;
    };
    const int64_t of_greedy = take_all(greedy);
    const int64_t of_modest = take_all(modest);
    const int64_t of_third = take_all(third);
    ::testing::Test::RecordProperty(budget.name,
                                    absl::StrCat(of_greedy, " ", of_modest, " ", of_third));
    EXPECT_GE(of_greedy, budget.total / 4);
    EXPECT_LE(of_greedy, budget.total / 2 + 3);  // those that run beside
    EXPECT_GE(of_modest, budget.total / 10);
    EXPECT_GE(of_third, budget.is_for_two ? 0 : budget.total / 40);
  }
}

}  // namespace tutti::door
