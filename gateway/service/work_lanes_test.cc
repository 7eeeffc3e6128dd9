#include "gateway/service/work_lanes.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

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
