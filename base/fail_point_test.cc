// This file has fail points in every build; fail_point_off_test.cc never has any.
#ifndef TUTTI_FAILPOINTS
#define TUTTI_FAILPOINTS 1
#endif
#include "base/fail_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using testing::Contains;

bool Plain() { return TUTTI_FAIL_POINT("base_test.plain"); }
bool PlainElsewhere() { return TUTTI_FAIL_POINT("base_test.plain"); }
bool AtToken(int64_t token) { return TUTTI_FAIL_POINT_AT("base_test.at_token", token); }

TEST(FailPointTest, FailsOnlyWhileItIsArmed) {
  EXPECT_FALSE(Plain());
  {
    const ScopedFailPoint armed("base_test.plain");
    EXPECT_TRUE(Plain());
    EXPECT_TRUE(PlainElsewhere()) << "one point of one name";
    EXPECT_FALSE(AtToken(1)) << "that is another point";
    EXPECT_EQ(armed.failed(), 2);
  }
  EXPECT_FALSE(Plain());
}

TEST(FailPointTest, AnArgumentNamesTheHit) {
  const ScopedFailPoint armed("base_test.at_token", {.argument = 17});
  std::vector<int64_t> failed;
  for (int64_t token = 0; token < 30; ++token) {
    if (AtToken(token)) failed.push_back(token);
  }
  EXPECT_EQ(failed, std::vector<int64_t>{17});
}

TEST(FailPointTest, HitsPassBeforeItFailsAndAfter) {
  const ScopedFailPoint armed("base_test.plain", {.passes = 2, .failures = 3});
  std::vector<bool> hits;
  for (int i = 0; i < 7; ++i) hits.push_back(Plain());
  EXPECT_EQ(hits, (std::vector<bool>{false, false, true, true, true, false, false}));
}

TEST(FailPointTest, OnlyHitsOfTheArgumentAreCounted) {
  const ScopedFailPoint armed("base_test.at_token", {.argument = 5, .passes = 1, .failures = 1});
  EXPECT_FALSE(AtToken(4));
  EXPECT_FALSE(AtToken(5));
  EXPECT_TRUE(AtToken(5));
  EXPECT_FALSE(AtToken(5));
  EXPECT_EQ(armed.failed(), 1);
}

// Never called: its point is known all the same.
[[maybe_unused]] bool NeverReached() { return TUTTI_FAIL_POINT("base_test.never_reached"); }
bool (*const kKeepNeverReached)() = NeverReached;

TEST(FailPointTest, AllAreListedWhetherReachedOrNot) {
  ASSERT_NE(kKeepNeverReached, nullptr);
  const std::vector<std::string> names = FailPointNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, Contains("base_test.plain"));
  EXPECT_THAT(names, Contains("base_test.at_token"));
  EXPECT_THAT(names, Contains("base_test.never_reached"));
}

TEST(FailPointTest, ThreadsShareTheCount) {
  const ScopedFailPoint armed("base_test.plain", {.passes = 100, .failures = 50});
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&failed] {
      for (int hit = 0; hit < 1000; ++hit) failed += Plain() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 50);
  EXPECT_EQ(armed.failed(), 50);
}

TEST(FailPointDeathTest, ANameWithoutAPointIsAMistake) {
  EXPECT_DEATH(ScopedFailPoint("base_test.plian"), "no fail point \"base_test.plian\"");
}

TEST(FailPointDeathTest, AnArmedPointIsNotArmedTwice) {
  const ScopedFailPoint armed("base_test.plain");
  EXPECT_DEATH(ScopedFailPoint("base_test.plain"), "\"base_test.plain\" is armed already");
}

}  // namespace
}  // namespace tutti
