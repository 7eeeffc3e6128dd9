#include "gateway/http/handshake_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tutti::gateway {
namespace {

class HandshakeGateTest : public ::testing::Test {
 protected:
  std::shared_ptr<int> Come(const std::string& account, const std::string& name) {
    auto who = std::make_shared<int>(0);
    gate_.Enter(account, who, [this, name] { begun_.push_back(name); });
    return who;
  }
  HandshakeGate gate_{8};
  std::vector<std::string> begun_;
};

TEST_F(HandshakeGateTest, OneAccountLeavesHalfToOthers) {
  std::vector<std::shared_ptr<int>> greedy;
  for (int i = 0; i < 100; ++i) greedy.push_back(Come("greedy", "greedy"));
  EXPECT_EQ(gate_.under_way(), 4);
  const auto modest = Come("modest", "modest");
  EXPECT_EQ(begun_.back(), "modest");
  EXPECT_TRUE(gate_.has_waiting("greedy"));
  EXPECT_FALSE(gate_.has_waiting("modest"));
}

TEST_F(HandshakeGateTest, TheNewestBeginsFirstAndWhoHasGoneNever) {
  std::vector<std::shared_ptr<int>> held;
  for (int i = 0; i < 4; ++i) held.push_back(Come("a", "first"));
  const auto old = Come("a", "old");
  const auto young = Come("a", "young");
  Come("a", "gone");
  EXPECT_EQ(begun_.size(), 4u);
  gate_.Leave("a");
  EXPECT_EQ(begun_.back(), "young");
  gate_.Leave("a");
  EXPECT_EQ(begun_.back(), "old");
  EXPECT_FALSE(gate_.has_waiting("a"));
  for (int i = 0; i < 4; ++i) gate_.Leave("a");
  EXPECT_EQ(gate_.under_way(), 0);
}

// One whose handshakes are over at once, and whose name comes first, does not take every place.
TEST_F(HandshakeGateTest, AccountsHaveTheirTurn) {
  std::vector<std::shared_ptr<int>> held;
  for (int i = 0; i < 6; ++i) held.push_back(Come("held" + std::to_string(i), "held"));
  for (int i = 0; i < 6; ++i) held.push_back(Come("a", "a"));
  held.push_back(Come("z", "z"));
  EXPECT_EQ(gate_.under_way(), 7);
  gate_.Leave("a");
  gate_.Leave("a");
  EXPECT_EQ(std::count(begun_.begin(), begun_.end(), "z"), 1);
}

// An account that was held up by others goes on when they leave.
TEST_F(HandshakeGateTest, PlacesOfOthersAreGivenOn) {
  std::vector<std::shared_ptr<int>> held;
  for (int i = 0; i < 4; ++i) held.push_back(Come("a", "a"));
  for (int i = 0; i < 4; ++i) held.push_back(Come("b", "b"));
  const auto under_way = gate_.under_way();
  EXPECT_LT(under_way, 8);
  for (int i = 0; i < 4; ++i) gate_.Leave("a");
  EXPECT_EQ(std::count(begun_.begin(), begun_.end(), "b"), 4);
}

}  // namespace
}  // namespace tutti::gateway
