#include "gateway/service/work_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

TEST(LaneOf, IsByTheSizeOfTheBody) {
  EXPECT_EQ(LaneOf(0), Lane::kShort);
  EXPECT_EQ(LaneOf(kInlineBodyBytesMax), Lane::kShort);
  EXPECT_EQ(LaneOf(kInlineBodyBytesMax + 1), Lane::kLong);
}

TEST(WorkLanes, DoNotWaitForEachOther) {
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  WorkLanes lanes;
  const auto runs = [&](Lane lane) {
    auto done = std::make_shared<std::promise<void>>();
    EXPECT_TRUE(lanes.Run(lane, [done] { done->set_value(); }));
    return done->get_future();
  };
  // Work that lasts: more of it than there are threads.
  for (const Lane lane : {Lane::kLong, Lane::kShort}) {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(lanes.Run(lane, [freed] { freed.wait(); }));
    if (lane == Lane::kLong) runs(Lane::kShort).wait();
    runs(Lane::kHere).wait();
  }
  free.set_value();
  runs(Lane::kLong).wait();
  runs(Lane::kShort).wait();
}

// The end of the process waits for what runs, and not for what waits.
TEST(WorkLanes, StopLetsGoOfWhatWaits) {
  std::promise<void> begun, free;
  auto gone = std::make_shared<int>();
  const std::weak_ptr<int> held = gone;
  std::atomic<bool> ended = false, ran = false;
  WorkLanes lanes;
  EXPECT_TRUE(lanes.Run(Lane::kHere, [&] {
    begun.set_value();
    free.get_future().wait();
    ended = true;
  }));
  begun.get_future().wait();
  EXPECT_TRUE(lanes.Run(Lane::kHere, [&ran, gone = std::move(gone)] { ran = true; }));
  std::thread stopper([&] { lanes.Stop(); });
  // Taken until the end begins, and not any more then. Not so fast that the lane is full before.
  while (lanes.Run(Lane::kShort, [] {})) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(ended);
  free.set_value();
  stopper.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(ran);
  for (const Lane lane : {Lane::kHere, Lane::kShort, Lane::kLong}) {
    EXPECT_FALSE(lanes.Run(lane, [] {}));
  }
  lanes.Stop();  // again, as the destructor does
  EXPECT_FALSE(held.expired()) << "what it holds goes with the lanes";
}

TEST(WorkLanes, TakeABoundedNumberOfJobs) {
  std::promise<void> free, begun;
  WorkLanes lanes;
  EXPECT_TRUE(lanes.Run(Lane::kHere, [&] {
    begun.set_value();
    free.get_future().wait();
  }));
  begun.get_future().wait();
  for (size_t i = 0; i < kLaneJobsMax; ++i) EXPECT_TRUE(lanes.Run(Lane::kHere, [] {}));
  EXPECT_FALSE(lanes.Run(Lane::kHere, [] {}));
  EXPECT_TRUE(lanes.Run(Lane::kShort, [] {}));
  free.set_value();
}

}  // namespace
}  // namespace tutti::gateway
