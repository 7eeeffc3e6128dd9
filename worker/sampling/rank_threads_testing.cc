#include "worker/sampling/rank_threads_testing.h"

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"

namespace tutti::worker {
namespace {

// The state that the ranks share: where each one's memory is, and a place to meet.
struct Meeting {
  explicit Meeting(int ranks) : memory(static_cast<size_t>(ranks)), barrier(ranks) {}
  std::vector<std::span<std::byte>> memory;
  std::barrier<> barrier;
};

class ThreadCollective : public kernels::Collective {
 public:
  ThreadCollective(Meeting* meeting, int rank, int64_t bytes)
      : meeting_(meeting), rank_(static_cast<size_t>(rank)), words_(bytes / 8 + 1) {}

  absl::Status Reserve(int, int64_t) override { return absl::OkStatus(); }
  void BeginStep(uint64_t) override {}
  absl::StatusOr<std::span<std::byte>> Acquire(int64_t bytes) override {
    CHECK(bytes <= static_cast<int64_t>(words_.size() * 8)) << bytes;
    return std::as_writable_bytes(std::span(words_)).first(static_cast<size_t>(bytes));
  }
  absl::StatusOr<std::span<const float>> Sum() override {
    return absl::UnimplementedError("sums of ranks");
  }
  absl::Status Gather(std::span<const int64_t> begin) override {
    meeting_->memory[rank_] = std::as_writable_bytes(std::span(words_));
    meeting_->barrier.arrive_and_wait();
    for (size_t r = 0; r < meeting_->memory.size(); ++r) {
      if (r == rank_) continue;
      const auto first = static_cast<size_t>(begin[r]);
      const size_t size = static_cast<size_t>(begin[r + 1]) - first;
      if (size > 0) {
        std::memcpy(meeting_->memory[rank_].data() + first, meeting_->memory[r].data() + first,
                    size);
      }
    }
    // Nobody writes the next exchange before all have read this one.
    meeting_->barrier.arrive_and_wait();
    return absl::OkStatus();
  }
  bool on_device() const override { return false; }
  absl::Status SumOnDevice(kernels::TensorView) override {
    return absl::UnimplementedError("sums on devices");
  }
  absl::Status GatherOnDevice(kernels::TensorView, std::span<const int64_t>) override {
    return absl::UnimplementedError("exchanges of devices");
  }
  absl::Status WaitForDevices() override { return absl::OkStatus(); }
  kernels::CollectiveTraffic traffic() const override { return {}; }

 private:
  Meeting* const meeting_;
  const size_t rank_;
  std::vector<int64_t> words_;
};

}  // namespace

void RunRanks(int ranks, int64_t bytes,
              const std::function<void(int rank, kernels::Collective* collective)>& body) {
  Meeting meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCollective collective(&meeting, rank, bytes);
      body(rank, &collective);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::worker
