#include "gateway/service/serves_lately.h"

#include <chrono>

#include "gtest/gtest.h"

namespace tutti::gateway {
namespace {

TEST(ServesLately, FromTheFirstPipelineUntilItsPatienceIsOver) {
  ServesLately lately;
  const Instant start{};
  EXPECT_FALSE(lately.Update(false, start)) << "it loads";
  EXPECT_TRUE(lately.Update(true, start + std::chrono::seconds(5)));
  EXPECT_TRUE(lately.Update(false, start + std::chrono::seconds(5) + kReadyPatience));
  EXPECT_FALSE(lately.Update(false, start + std::chrono::seconds(6) + kReadyPatience));
  EXPECT_TRUE(lately.Update(true, start + std::chrono::seconds(7) + kReadyPatience));
}

}  // namespace
}  // namespace tutti::gateway
