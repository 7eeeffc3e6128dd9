#include "worker/worker_inbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/limits.h"

namespace tutti::worker {

WorkerInbox::WorkerInbox(std::shared_ptr<WorkerMailbox> mailbox, const LinkTable* links,
                         const Clock* clock, Position* position, EndsEpoch ends_epoch)
    : mailbox_(std::move(mailbox)),
      links_(links),
      clock_(clock),
      position_(position),
      ends_epoch_(std::move(ends_epoch)) {}

void WorkerInbox::HandleNext(Instant deadline,
                             const std::function<bool(WorkerEvent event)>& handle) {
  std::swap(events_, deferred_);
  is_over_ = false;
  if (events_.empty()) {
    position_->Begin(Activity::kIdle);
    mailbox_->Drain(deadline, &events_);
  }
  position_->Begin(Activity::kFrames, kSliceTimeMin);
  for (WorkerEvent& event : events_) {
    if (!handle(std::move(event))) break;
  }
  events_.clear();
}

bool WorkerInbox::Deliver(bool in_step, WorkerEvent* event) {
  auto* const came = std::get_if<LinkFrame>(event);
  auto* const closed = std::get_if<LinkClosed>(event);
  if (came == nullptr && closed == nullptr) return false;
  const LinkId link = came != nullptr ? came->link : closed->link;
  LinkOwner* const owner = links_->Find(link);
  if (owner == nullptr || (in_step && !owner->serves_steps())) return false;
  if (came != nullptr) {
    owner->OnFrame(link, std::move(came->frame), std::move(came->payload), clock_->Now());
  } else {
    owner->OnClosed(link, closed->reason, clock_->Now());
  }
  return true;
}

void WorkerInbox::Take(Instant deadline, bool in_step) {
  mailbox_->Drain(deadline, &arrived_);
  for (WorkerEvent& event : arrived_) {
    // In a step all links of ranks are up, and what comes over them is exchanges.
    if (in_step && Deliver(in_step, &event)) {
      position_->Turn();
      continue;
    }
    is_over_ |= ends_epoch_(event);
    deferred_.push_back(std::move(event));
  }
  arrived_.clear();
}

absl::Status WorkerInbox::WaitInStep(Instant deadline, const std::string& waiting_for) {
  Take(deadline, /*in_step=*/true);
  if (is_over_) return absl::AbortedError("the epoch ended while a step waited for another worker");
  if (deferred_.size() > kMailboxFramesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "more than ", kMailboxFramesMax, " frames came while a step waited for ", waiting_for));
  }
  return absl::OkStatus();
}

// Those that are handled say nothing any more.
void WorkerInbox::BeginFetch() {
  is_over_ |= std::any_of(events_.begin(), events_.end(), ends_epoch_);
}

absl::Status WorkerInbox::LookInFetch() {
  Take(Instant(), /*in_step=*/false);
  if (!is_over_) return absl::OkStatus();
  return absl::AbortedError("the epoch ended while its shard was fetched");
}

}  // namespace tutti::worker
