#include "gateway/service/work_lanes.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

bool IsShort(int64_t bytes) { return bytes <= static_cast<int64_t>(kInlineBodyBytesMax); }

}  // namespace

Lane LaneToRead(int64_t bytes) { return IsShort(bytes) ? Lane::kShort : Lane::kLong; }

Lane LaneToAsk(int64_t bytes) { return IsShort(bytes) ? Lane::kShort : Lane::kAsk; }

WorkLanes::WorkLanes()
    : pools_{{{{.any = 1}, kLaneJobsMax},
              {{.any = kShortLaneThreads}, kLaneJobsMax},
              {{.medium = kMediumBodyThreads, .large = kLargeBodyThreads}, kLaneJobsMax},
              {{.medium = kMediumBodyThreads, .large = kLargeBodyThreads}, kLaneJobsMax}}} {}

void WorkLanes::Stop() {
  for (door::WorkPool& pool : pools_) pool.Stop();
}

bool WorkLanes::Run(Lane lane, const std::string& owner, int64_t bytes, std::function<void()> job) {
  return pools_[static_cast<size_t>(lane)].Submit(
      {.client = owner, .owner = owner, .bytes = bytes, .run = std::move(job)});
}

}  // namespace tutti::gateway
