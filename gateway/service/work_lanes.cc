#include "gateway/service/work_lanes.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

size_t Index(Lane lane) { return static_cast<size_t>(lane); }

}  // namespace

Lane LaneOf(size_t body_bytes) {
  return body_bytes <= kInlineBodyBytesMax ? Lane::kShort : Lane::kLong;
}

WorkLanes::WorkLanes() {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kLaneThreads[lane]; ++i) {
      threads_.emplace_back([this, lane] { Work(static_cast<Lane>(lane)); });
    }
  }
}

void WorkLanes::Stop() {
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
    for (ConditionVariable& changed : changed_) changed.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkLanes::Run(Lane lane, std::function<void()> job) {
  const MutexLock lock(&mutex_);
  if (ending_ || jobs_[Index(lane)].size() >= kLaneJobsMax) return false;
  jobs_[Index(lane)].push_back(std::move(job));
  changed_[Index(lane)].NotifyAll();
  return true;
}

void WorkLanes::Work(Lane lane) {
  while (true) {
    std::function<void()> job;
    {
      const MutexLock lock(&mutex_);
      while (!ending_ && jobs_[Index(lane)].empty()) changed_[Index(lane)].Wait(&mutex_);
      if (ending_) return;
      job = std::move(jobs_[Index(lane)].front());
      jobs_[Index(lane)].pop_front();
    }
    job();
  }
}

}  // namespace tutti::gateway
