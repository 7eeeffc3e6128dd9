// Support for tests: the ranks of a stage as threads of one process, their frames in queues.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "worker/links/link_collective.h"

namespace tutti::worker {

class TestRanks {
 public:
  explicit TestRanks(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      channels_.push_back(std::make_unique<Channel>(this, rank));
      collectives_.push_back(std::make_unique<LinkCollective>(&clock_));
      collectives_.back()->BeginEpoch(channels_.back().get(), Epoch(7), ranks, rank);
    }
  }

  int ranks() const { return static_cast<int>(collectives_.size()); }
  LinkCollective* collective(int rank) { return collectives_[rank].get(); }
  RankFrameChannel* channel(int rank) { return channels_[rank].get(); }
  const Clock* clock() const { return &clock_; }

  // Runs fn(rank) on a thread for each rank.
  void Run(const std::function<void(int)>& fn) {
    std::vector<std::thread> threads;
    for (int rank = 1; rank < ranks(); ++rank) threads.emplace_back(fn, rank);
    fn(0);
    for (std::thread& thread : threads) thread.join();
  }

  // Changes frames on their way; for tests of the checks.
  std::function<void(int from, RankFrameChannel::Received* frame)> meddle;
  std::chrono::milliseconds patience{30'000};
  std::atomic<bool> over{false};  // the epoch; seen in pauses only

 private:
  static constexpr std::chrono::milliseconds kLongestPause{1};

  class Channel : public RankFrameChannel {
   public:
    Channel(TestRanks* all, int rank) : all_(all), rank_(rank) {}
    void Send(int rank, v1::Frame frame, transport::Payload payload) override {
      Received sent{std::move(frame), std::move(payload)};
      if (all_->meddle) all_->meddle(rank_, &sent);
      const MutexLock lock(&all_->mutex_);
      all_->queues_[{rank_, rank}].push_back(std::move(sent));
      all_->arrived_.NotifyAll();
    }
    absl::StatusOr<Received> Receive(int rank) override {
      const auto deadline = std::chrono::steady_clock::now() + all_->patience;
      const MutexLock lock(&all_->mutex_);
      auto& queue = all_->queues_[{rank, rank_}];
      while (queue.empty() && all_->arrived_.WaitUntil(&all_->mutex_, deadline)) continue;
      if (queue.empty()) return absl::DeadlineExceededError(NameOf(rank) + " is silent");
      Received received = std::move(queue.front());
      queue.pop_front();
      return received;
    }
    void AllowSilence(Duration) override {}
    absl::Status Pause(Instant until) override {
      std::this_thread::sleep_until(std::min(until, all_->clock_.Now() + kLongestPause));
      return all_->over ? absl::AbortedError("the epoch is over") : absl::OkStatus();
    }
    std::string NameOf(int rank) const override { return absl::StrCat("rank ", rank); }

   private:
    TestRanks* const all_;
    const int rank_;
  };

  SystemClock clock_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<LinkCollective>> collectives_;
  Mutex mutex_;
  ConditionVariable arrived_;
  std::map<std::pair<int, int>, std::deque<RankFrameChannel::Received>> queues_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::worker
