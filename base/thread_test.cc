#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

#include "base/fail_point.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

TEST(StartThread, StartsOne) {
  std::atomic<int> ran = 0;
  absl::StatusOr<std::thread> one = TryStartThread("a test", [&] { ++ran; });
  ASSERT_TRUE(one.ok()) << one.status();
  std::thread other = StartThread("a test", [&] { ++ran; });
  one->join();
  other.join();
  EXPECT_EQ(ran, 2);
}

TEST(StartThread, SaysWhatForWhereThereIsNone) {
  const ScopedFailPoint none("base.no_thread");
  const absl::Status status = TryStartThread("the resolver of names", [] {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), AllOf(HasSubstr("for the resolver of names"),
                                      HasSubstr("Resource temporarily unavailable")));
}

TEST(StartThread, LooksForRoomForSeveral) {
  EXPECT_EQ(CheckRoomForThreads("a library", 5), absl::OkStatus());
  const ScopedFailPoint none("base.no_thread", {.passes = 4});
  EXPECT_EQ(CheckRoomForThreads("a library", 4), absl::OkStatus());
  EXPECT_THAT(std::string(CheckRoomForThreads("a library", 1).message()),
              HasSubstr("for a library"));
}

// As the system says it, not as a fail point does: the limit is a user's, and holds for no root.
void StartOneTooMany() {
  const rlimit none = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(65534) != 0)) {
    std::_Exit(77);
  }
  StartThread("the executor", [] {}).join();
}

TEST(StartThreadDeathTest, EndsTheProcessThatNeedsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(StartOneTooMany(), ExitedWithCode(kExitNoThread),
              "no thread can be started for the executor");
}

}  // namespace
}  // namespace tutti
