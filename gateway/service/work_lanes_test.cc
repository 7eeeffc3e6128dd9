#include "gateway/service/work_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

constexpr int64_t kLargeBody = 1 << 20;

TEST(Lanes, AreChosenByTheSizeOfTheBody) {
  const auto inline_max = static_cast<int64_t>(kInlineBodyBytesMax);
  EXPECT_EQ(LaneToRead(0), Lane::kShort);
  EXPECT_EQ(LaneToRead(inline_max), Lane::kShort);
  EXPECT_EQ(LaneToRead(inline_max + 1), Lane::kLong);
  EXPECT_EQ(LaneToAsk(inline_max), Lane::kShort);
  EXPECT_EQ(LaneToAsk(inline_max + 1), Lane::kAsk);
}

TEST(WorkLanes, DoNotWaitForEachOther) {
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  WorkLanes lanes;
  const auto runs = [&](Lane lane) {
    auto done = std::make_shared<std::promise<void>>();
    EXPECT_TRUE(lanes.Run(lane, "modest", 1, [done] { done->set_value(); }));
    return done->get_future();
  };
  // Work that lasts: more of it than there are threads.
  for (const Lane lane : {Lane::kLong, Lane::kAsk, Lane::kShort}) {
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(lanes.Run(lane, "greedy", kLargeBody, [freed] { freed.wait(); }));
    }
    if (lane == Lane::kLong) runs(Lane::kAsk).wait();
    if (lane != Lane::kShort) runs(Lane::kShort).wait();
    runs(Lane::kHere).wait();
  }
  // What is not large does not wait for bodies and calls that last.
  runs(Lane::kLong).wait();
  runs(Lane::kAsk).wait();
  free.set_value();
  runs(Lane::kLong).wait();
  runs(Lane::kShort).wait();
}

TEST(WorkLanes, CallersTakeTurns) {
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  std::vector<std::string> order;
  {
    WorkLanes lanes;
    std::promise<void> begun;
    EXPECT_TRUE(lanes.Run(Lane::kHere, "greedy", kLargeBody, [&] {
      begun.set_value();
      freed.wait();
    }));
    begun.get_future().wait();
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(lanes.Run(Lane::kHere, "greedy", kLargeBody, [&] { order.push_back("greedy"); }));
    }
    EXPECT_TRUE(lanes.Run(Lane::kHere, "modest", 20'000, [&] { order.push_back("modest"); }));
    free.set_value();
  }
  ASSERT_EQ(order.size(), 51u);
  EXPECT_TRUE(order[0] == "modest" || order[1] == "modest");
}

// The end of the process waits for what runs, and not for what waits.
TEST(WorkLanes, StopLetsGoOfWhatWaits) {
  std::promise<void> begun, free;
  auto gone = std::make_shared<int>();
  const std::weak_ptr<int> held = gone;
  std::atomic<bool> ended = false, ran = false;
  WorkLanes lanes;
  EXPECT_TRUE(lanes.Run(Lane::kHere, "a", 1, [&] {
    begun.set_value();
    free.get_future().wait();
    ended = true;
  }));
  begun.get_future().wait();
  EXPECT_TRUE(lanes.Run(Lane::kHere, "a", 1, [&ran, gone = std::move(gone)] { ran = true; }));
  std::thread stopper([&] { lanes.Stop(); });
  // Taken until the end begins, and not any more then. Not so fast that the lane is full before.
  while (lanes.Run(Lane::kHere, "b", 1, [] {})) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_FALSE(ended);
  free.set_value();
  stopper.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(ran);
  for (const Lane lane : {Lane::kHere, Lane::kShort, Lane::kLong, Lane::kAsk}) {
    EXPECT_FALSE(lanes.Run(lane, "a", 1, [] {}));
  }
  lanes.Stop();  // again
  EXPECT_FALSE(held.expired()) << "what it holds goes with the lanes";
}

// A greedy caller leaves places to others.
TEST(WorkLanes, TakeABoundedNumberOfJobs) {
  std::promise<void> free, begun;
  WorkLanes lanes;
  EXPECT_TRUE(lanes.Run(Lane::kHere, "greedy", 1, [&] {
    begun.set_value();
    free.get_future().wait();
  }));
  begun.get_future().wait();
  size_t taken = 0;
  while (lanes.Run(Lane::kHere, "greedy", 1, [] {})) ++taken;
  EXPECT_GT(taken, kLaneJobsMax / 4);
  EXPECT_LT(taken, kLaneJobsMax / 2);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(lanes.Run(Lane::kHere, "modest", 1, [] {}));
  EXPECT_TRUE(lanes.Run(Lane::kShort, "greedy", 1, [] {}));
  free.set_value();
}

}  // namespace
}  // namespace tutti::gateway
