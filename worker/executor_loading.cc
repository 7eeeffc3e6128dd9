// How an executor loads a shard; a worker without the checkpoint fetches it first.
#include <algorithm>
#include <utility>

#include "worker/executor.h"
#include "worker/limits.h"

namespace tutti::worker {

absl::StatusOr<std::unique_ptr<StageRunner>> Executor::Load(const v1::AssignShard& shard,
                                                            const ShardProgressCallback& progress) {
  loading_ = true;
  absl::Status fetched = Fetch(shard);
  if (!fetched.ok()) {
    loading_ = false;
    return fetched;
  }
  auto runner = options_.factory(shard, [&](int64_t loaded, int64_t total) {
    position_.Move();
    progress(loaded, total);
  });
  loading_ = false;
  if (runner.ok()) metrics_.ComputesIn(shard.numerics_class());
  // A coordinator that comes after this one keeps the class.
  if (runner.ok() && !shard.numerics_class().empty()) {
    context_.hello.set_last_numerics_class(shard.numerics_class());
  }
  return runner;
}

absl::Status Executor::Fetch(const v1::AssignShard& shard) {
  if (options_.fetch == nullptr) return absl::OkStatus();
  // Events that came with this assignment, and are not handled yet; those that are say nothing.
  fetch_over_ = std::any_of(events_.begin(), events_.end(),
                            [this](const WorkerEvent& event) { return EndsEpoch(event); });
  const auto tell = [this](const FetchProgress& fetch) {
    position_.Move();
    v1::Frame frame;
    frame.set_epoch(stage_.epoch().value());
    v1::ShardProgress* const progress = frame.mutable_shard_progress();
    progress->set_fetched_bytes(fetch.fetched_bytes);
    progress->set_fetch_bytes(fetch.all_bytes);
    progress->set_fetch_bytes_per_second(fetch.bytes_per_second);
    ToCoordinator(std::move(frame));
  };
  return options_.fetch->Fetch(shard, tell, [this] { return LookForEnd(); });
}

// A message that comes while bytes of the checkpoint are on their way is handled afterwards. It may
// take hours, so an epoch that is over ends it: what has come is kept.
absl::Status Executor::LookForEnd() {
  mailbox_->Drain(Instant(), &events_in_step_);
  for (WorkerEvent& event : events_in_step_) {
    fetch_over_ |= EndsEpoch(event);
    deferred_.push_back(std::move(event));
  }
  events_in_step_.clear();
  if (!stop_ && !fetch_over_) return absl::OkStatus();
  return absl::AbortedError("the epoch ended while its shard was fetched");
}

}  // namespace tutti::worker
