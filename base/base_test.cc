#include <gtest/gtest.h>

#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mailbox.h"
#include "base/random.h"
#include "base/retry_delay.h"
#include "base/status.h"

namespace tutti {
namespace {

// Known answers of Philox4x32-10 from the authors' Random123 distribution (kat_vectors).
TEST(RandomTest, PhiloxKnownAnswers) {
  EXPECT_EQ(Philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RandomTest, UniformStaysBelowOneAndCoversTheRange) {
  Random random(7);
  double low = 1, high = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = random.Uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    low = std::min(low, u);
    high = std::max(high, u);
  }
  EXPECT_LT(low, 0.001);
  EXPECT_GT(high, 0.999);
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}
absl::StatusOr<int> Quarter(int n) {
  TUTTI_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

TEST(StatusTest, MacrosPassErrorsUp) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Annotate(Quarter(6).status(), "quarter of 6").message(), "quarter of 6: odd");
}

TEST(RetryDelayTest, TravelsWithTheStatus) {
  const absl::Status full = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(RetryDelayOf(full).has_value());
  EXPECT_FALSE(RetryDelayOf(absl::OkStatus()).has_value());
  const absl::Status refused = WithRetryDelay(full, std::chrono::milliseconds(1500));
  EXPECT_EQ(refused.message(), "full");
  EXPECT_EQ(RetryDelayOf(Annotate(refused, "queue")), std::chrono::milliseconds(1500));
  EXPECT_EQ(RetryDelayOf(WithRetryDelay(full, Duration::zero())), std::chrono::milliseconds(1));
}

TEST(CheckDeathTest, PrintsTheConditionAndTheMessage) {
  EXPECT_DEATH(CHECK(1 + 1 == 3) << "sum " << 2, "CHECK failed: 1 \\+ 1 == 3 sum 2");
}

TEST(MailboxTest, KeepsOrderRefusesBeyondCapacityAndCloses) {
  Mailbox<int> mailbox(2);
  EXPECT_TRUE(mailbox.TryPost(1));
  EXPECT_TRUE(mailbox.TryPost(2));
  EXPECT_FALSE(mailbox.TryPost(3));
  std::vector<int> items;
  EXPECT_TRUE(mailbox.Drain(kInstantNever, &items));
  EXPECT_EQ(items, (std::vector<int>{1, 2}));
  std::thread producer([&] {
    mailbox.Post(4);
    mailbox.Close();
  });
  EXPECT_TRUE(mailbox.Drain(kInstantNever, &items));
  producer.join();
  if (items.empty() || items[0] != 4) FAIL();
  EXPECT_FALSE(mailbox.Drain(kInstantNever, &items));
}

}  // namespace
}  // namespace tutti
