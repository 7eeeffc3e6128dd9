#include "client/first_waits.h"

#include <gtest/gtest.h>

#include "client/limits.h"

namespace tutti::client {
namespace {

TEST(FirstWaits, AreBoundedInNumber) {
  FirstWaits waits;
  for (int64_t i = 0; i < kFirstWaitsMax; ++i) ASSERT_TRUE(waits.Begin(1));
  EXPECT_FALSE(waits.Begin(1));
  waits.End(1);
  EXPECT_TRUE(waits.Begin(1));
}

TEST(FirstWaits, AreBoundedInBytes) {
  FirstWaits waits;
  EXPECT_FALSE(waits.Begin(kFirstWaitBytesMax + 1));
  EXPECT_TRUE(waits.Begin(kFirstWaitBytesMax));
  EXPECT_FALSE(waits.Begin(1));
  EXPECT_TRUE(waits.Begin(0));
  waits.End(kFirstWaitBytesMax);
  EXPECT_TRUE(waits.Begin(1));
}

}  // namespace
}  // namespace tutti::client
