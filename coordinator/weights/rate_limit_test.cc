#include "coordinator/weights/rate_limit.h"

#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

constexpr Instant kStart = Instant() + std::chrono::seconds(100);

TEST(RateLimitTest, SpreadsBytesOverTime) {
  RateLimit limit(1000);
  EXPECT_EQ(limit.Take(500, kStart), kStart);
  EXPECT_EQ(limit.Take(500, kStart), kStart + std::chrono::milliseconds(500));
  EXPECT_EQ(limit.Take(1, kStart), kStart + std::chrono::milliseconds(1000));
}

TEST(RateLimitTest, QuietTimesAreNotSavedUp) {
  RateLimit limit(1000);
  EXPECT_EQ(limit.Take(1000, kStart), kStart);
  const Instant later = kStart + std::chrono::hours(1);
  EXPECT_EQ(limit.Take(1000, later), later);
  EXPECT_EQ(limit.Take(1000, later), later + std::chrono::seconds(1));
}

TEST(RateLimitTest, ZeroIsNoLimit) {
  RateLimit limit(0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limit.Take(int64_t{1} << 40, kStart), kStart);
}

}  // namespace
}  // namespace tutti::coordinator
