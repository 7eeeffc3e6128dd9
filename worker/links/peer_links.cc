#include "worker/links/peer_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"

namespace tutti::worker {

PeerLinks::PeerLinks(Options options, LinkContext* context, const Clock* clock, Events events)
    : options_(std::move(options)),
      context_(context),
      events_(std::move(events)),
      finder_(options_.peers),
      strangers_(context),
      ranks_(context, &finder_, clock, options_.memory_folder, events_.wait_for_rank),
      group_(options_.devices, clock),
      device_links_(options_.device_links, context->hello.worker_id(), clock,
                    events_.wait_for_rows) {}

absl::Status PeerLinks::Begin(Epoch epoch, const v1::AssignShard& shard,
                              StageRunner::LinkMemory memory, Duration rank_patience, Instant now) {
  End(absl::UnavailableError(absl::StrCat("epoch ", EpochName(epoch), " begins")));
  epoch_ = epoch;
  num_ranks_ = shard.num_ranks();
  rank_ = shard.rank();
  finder_.Learn(shard, context_->advertised);
  std::vector<AcceptedLink*> expected = ranks_.Begin(epoch, shard, rank_patience);
  if (!shard.previous_worker_id().empty()) ExpectPrevious(shard.previous_worker_id(), &expected);
  strangers_.Begin(epoch, std::move(expected));
  options_.collective->BeginEpoch(&ranks_, epoch, num_ranks_, rank_);
  TUTTI_RETURN_IF_ERROR(ranks_.Dial(now));
  device_links_.Begin(shard.previous_worker_id(),
                      {shard.next_worker_ids().begin(), shard.next_worker_ids().end()},
                      std::move(memory));
  for (const std::string& worker_id : shard.next_worker_ids()) {
    AddNext(worker_id);
    TUTTI_RETURN_IF_ERROR(next_.back()->Begin(now));
  }
  return absl::OkStatus();
}

void PeerLinks::ExpectPrevious(const std::string& worker_id, std::vector<AcceptedLink*>* expected) {
  previous_ = std::make_unique<AcceptedLink>(
      v1::LINK_PURPOSE_ACTIVATION, epoch_, worker_id,
      AcceptedLink::Answers{.to_memory = nullptr,
                            .to_device =
                                [this](const std::string& description) {
                                  return device_links_.AnswerToPrevious(description);
                                }},
      PeerLink::Events{.on_frame = events_.on_activation});
  expected->push_back(previous_.get());
}

void PeerLinks::AddNext(const std::string& worker_id) {
  const size_t index = next_.size();
  PeerLink::Events events = {
      .on_up =
          [=, this](const v1::Welcome& welcome) {
            device_links_.HandleAnswer(index, welcome.device_link());
          },
      // Nothing else comes from there.
      .on_frame = [=, this](const v1::Frame&,
                            const transport::Payload&) { device_links_.HandleUp(index); }};
  next_.push_back(std::make_unique<DialledLink>(context_, &finder_, v1::LINK_PURPOSE_ACTIVATION,
                                                epoch_, worker_id, std::move(events)));
  next_.back()->OfferDevice(device_links_.DescriptionFor(index));
}

void PeerLinks::End(const absl::Status& reason) {
  epoch_ = Epoch();
  grouped_ = false;
  options_.collective->LeaveDevices();
  device_links_.End();
  strangers_.End(reason);
  previous_.reset();
  next_.clear();
  ranks_.End();
}

absl::Status PeerLinks::Group(const std::function<void()>& progress) {
  grouped_ = true;
  return group_.Form(options_.collective, &ranks_, num_ranks_, rank_, progress);
}

void PeerLinks::SendToNext(const v1::Frame& frame, const transport::Payload& payload) {
  for (const auto& next : next_) next->Send(frame, payload);
}

absl::Status PeerLinks::Tick(Instant now) {
  strangers_.Tick(now);
  absl::Status status = ranks_.Tick(now);
  for (const auto& next : next_) status.Update(next->Tick(now));
  TickDevices(now);
  return status;
}

// Groups form one at a time, those of the stage's ranks first.
void PeerLinks::TickDevices(Instant now) {
  if (epoch_ == Epoch() || !grouped_ || !device_links_.Tick(now)) return;
  v1::Frame up;
  up.set_epoch(epoch_.value());
  up.mutable_device_link_up();
  previous_->Send(std::move(up), transport::Payload());
}

Instant PeerLinks::next_wake(Instant now) const {
  Instant wake =
      std::min({ranks_.next_wake(), strangers_.next_wake(), device_links_.next_wake(now)});
  for (const auto& next : next_) wake = std::min(wake, next->next_wake());
  return wake;
}

std::vector<v1::Frame> PeerLinks::PopReports() {
  std::vector<v1::LinkState> states;
  for (const auto& next : next_) {
    if (std::optional<v1::LinkState> state = next->PopReport()) states.push_back(*std::move(state));
  }
  ranks_.PopReports(&states);
  std::vector<v1::Frame> frames(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    frames[i].set_epoch(epoch_.value());
    *frames[i].mutable_link_state() = std::move(states[i]);
  }
  return frames;
}

}  // namespace tutti::worker
