#include "door/heap_trimmer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "door/door.h"
#include "door/limits.h"

namespace tutti::door {
namespace {

TEST(HeapTrimmerTest, NobodyWaitsForIt) {
  std::promise<void> begun, may_end;
  std::atomic<int> runs{0};
  {
    HeapTrimmer trimmer(
        [&] {
          if (++runs > 1) return;
          begun.set_value();
          may_end.get_future().wait();
        },
        std::chrono::hours(1));
    trimmer.Wake();
    begun.get_future().wait();
    // It is at work; these return all the same, and are one more run together.
    for (int i = 0; i < 100; ++i) trimmer.Wake();
    EXPECT_EQ(runs, 1);
    may_end.set_value();
    while (runs < 2) std::this_thread::yield();
  }
  EXPECT_EQ(runs, 2);
}

// Memory that is freed a little later goes back too.
TEST(HeapTrimmerTest, RunsOnceMoreLater) {
  std::atomic<int> runs{0};
  HeapTrimmer trimmer([&] { ++runs; }, std::chrono::milliseconds(5));
  trimmer.Wake();
  while (runs < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(runs, 2) << "and not for ever";
}

TEST(HeapTrimmerTest, EndsWithoutARun) {
  std::atomic<int> runs{0};
  {
    HeapTrimmer trimmer([&] { ++runs; });
  }
  EXPECT_EQ(runs, 0);
}

// Memory that was taken and given back may not be trimmed on the thread that gives it back.
TEST(HeapTrimmerTest, ADoorTrimsElsewhere) {
  std::promise<std::thread::id> trimmed_on;
  std::atomic<int> runs{0};
  Door door({.bytes = 2 * kTrimAfterBytes}, [&] {
    if (++runs == 1) trimmed_on.set_value(std::this_thread::get_id());
  });
  { auto charge = door.budget.Take("a client", kTrimAfterBytes); }
  EXPECT_NE(trimmed_on.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace tutti::door
