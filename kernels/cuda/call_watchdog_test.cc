#include "kernels/cuda/call_watchdog.h"

#include <gtest/gtest.h>

#include <future>

namespace tutti::kernels::cuda {
namespace {

constexpr std::chrono::milliseconds kPatience{50};

TEST(CallWatchdogTest, QuickCallsAnswerForThemselves) {
  CallWatchdog watchdog(std::chrono::seconds(30));
  const auto never = [] { FAIL() << "nobody was late"; };
  EXPECT_TRUE(watchdog
                  .Run(
                      "a call", [] { return absl::OkStatus(); }, never)
                  .ok());
  EXPECT_EQ(watchdog.Run(
                "a call", [] { return absl::InternalError("no"); }, never),
            absl::InternalError("no"));
}

TEST(CallWatchdogTest, ACallThatHangsIsGivenUpOnceAndNamed) {
  CallWatchdog watchdog(kPatience);
  std::promise<void> given_up;
  int times = 0;
  const absl::Status status = watchdog.Run(
      "an all-gather",
      [&] {
        given_up.get_future().wait();
        return absl::InternalError("the group was given up");
      },
      [&] {
        ++times;
        given_up.set_value();
      });
  EXPECT_EQ(times, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "an all-gather did not return within 50 ms and was given up: the group was given up");
}

// Also when the library then says that all is well.
TEST(CallWatchdogTest, ALateAnswerIsNoAnswer) {
  CallWatchdog watchdog(kPatience);
  std::promise<void> given_up;
  const absl::Status status = watchdog.Run(
      "a call",
      [&] {
        given_up.get_future().wait();
        return absl::OkStatus();
      },
      [&] { given_up.set_value(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  const absl::Status next = watchdog.Run(
      "a call", [] { return absl::OkStatus(); }, [] {});
  EXPECT_TRUE(next.ok()) << next;
}

}  // namespace
}  // namespace tutti::kernels::cuda
