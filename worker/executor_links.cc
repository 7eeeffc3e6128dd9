// The links of an executor's epoch to other workers: dialled, expected, and let go of.
#include <utility>

#include "spdlog/spdlog.h"
#include "worker/executor.h"
#include "worker/limits.h"

namespace tutti::worker {

absl::Status Executor::BeginLinks(Epoch epoch) {
  const v1::AssignShard& shard = stage_.shard();
  const Instant now = clock_->Now();
  next_.clear();
  peers_.Learn(shard, context_.advertised);
  std::vector<AcceptedLinks::Expected> expected = ranks_.ExpectedOf(shard);
  if (!shard.previous_worker_id().empty()) {
    previous_index_ = expected.size();
    expected.push_back({.purpose = v1::LINK_PURPOSE_ACTIVATION,
                        .worker_id = shard.previous_worker_id(),
                        .accept_memory = nullptr,
                        .answer_device = [this](const std::string& description) {
                          return device_links_.AnswerToPrevious(description);
                        }});
  }
  accepted_.Begin(epoch, std::move(expected));
  options_.collective->BeginEpoch(&ranks_, epoch, shard.num_ranks(), shard.rank());
  static_assert(kRankPatienceLeases > 2, "the coordinator names the stuck rank after two leases");
  TUTTI_RETURN_IF_ERROR(
      ranks_.Begin(epoch, shard, 0, kRankPatienceLeases * coordinator_.lease(), now));
  device_links_.Begin(shard.previous_worker_id(),
                      {shard.next_worker_ids().begin(), shard.next_worker_ids().end()},
                      stage_.link_memory());
  for (const std::string& worker_id : shard.next_worker_ids()) {
    next_.push_back(std::make_unique<DialledLink>(&context_, &peers_, v1::LINK_PURPOSE_ACTIVATION));
    next_.back()->OfferDevice(device_links_.DescriptionFor(next_.size() - 1));
    TUTTI_RETURN_IF_ERROR(next_.back()->Begin(epoch, worker_id, now));
  }
  return absl::OkStatus();
}

void Executor::EndLinks(const absl::Status& reason) {
  options_.collective->LeaveDevices();
  device_links_.End();
  ranks_.End();
  next_.clear();
  accepted_.End(reason);
}

void Executor::LeaveCoordinator() {
  position_.Begin(Activity::kLinks);
  stop_ = stop_ || leaving_.has_value();
  stage_.OnCoordinatorLost();
  linked_epoch_ = Epoch();
  failed_epoch_ = Epoch();
  EndLinks(absl::UnavailableError("this worker lost its coordinator"));
  position_.Begin(Activity::kFrames, kSliceTimeMin);
}

// Called after the ranks of the stage: groups form one at a time.
void Executor::TickDeviceLinks(Instant now) {
  if (linked_epoch_ == Epoch() || grouped_epoch_ != linked_epoch_) return;
  if (!device_links_.Tick(now)) return;
  v1::Frame up;
  up.set_epoch(linked_epoch_.value());
  up.mutable_device_link_up();
  accepted_.Send(previous_index_, std::move(up), transport::Payload());
}

}  // namespace tutti::worker
