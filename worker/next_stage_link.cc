#include "worker/next_stage_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti {

NextStageLink::NextStageLink(LinkContext* context, const PeerTable* peers)
    : context_(context), peers_(peers), backoff_(kFirstRedial, kSlowestStageRedial) {}

absl::Status NextStageLink::Begin(Epoch epoch, const std::string& worker_id, Instant now) {
  End();
  if (worker_id.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(address_, peers_->Find(worker_id));
  epoch_ = epoch;
  worker_id_ = worker_id;
  backoff_.Reset();
  Dial(now);
  return absl::OkStatus();
}

void NextStageLink::End() {
  link_.reset();
  epoch_ = Epoch();
  worker_id_.clear();
  welcomed_ = false;
  waiting_.clear();
  next_dial_ = kInstantNever;
  trouble_.reset();
  give_up_ = kInstantNever;
}

void NextStageLink::Dial(Instant now) {
  id_ = context_->NewId();
  link_ = context_->Dial(address_, id_, v1::LINK_PURPOSE_ACTIVATION, epoch_);
  next_dial_ = kInstantNever;
}

absl::Status NextStageLink::Tick(Instant now) {
  if (now >= give_up_) {
    give_up_ = kInstantNever;
    return Annotate(*trouble_, absl::StrCat("activation link to ", worker_id_, " at ", address_));
  }
  if (now >= next_dial_) Dial(now);
  return absl::OkStatus();
}

Instant NextStageLink::next_wake() const { return std::min(next_dial_, give_up_); }

void NextStageLink::OnFrame(const v1::Frame& frame, Instant now) {
  if (welcomed_ || !frame.has_welcome()) {
    OnClosed(absl::InvalidArgumentError(
                 absl::StrCat("it sent frame kind ", static_cast<int>(frame.body_case()),
                              ", but nothing except one welcome comes this way")),
             now);
    return;
  }
  welcomed_ = true;
  trouble_.reset();
  give_up_ = kInstantNever;
  spdlog::debug("epoch {}: activations go to {}", epoch_.value(), worker_id_);
  while (!waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SendNow(std::move(next.frame), std::move(next.payload));
  }
}

void NextStageLink::OnClosed(const absl::Status& reason, Instant now) {
  link_.reset();
  if (!trouble_.has_value()) {
    give_up_ = now + (welcomed_ ? kBrokenLinkGrace : kUnreachablePatience);
    spdlog::log(welcomed_ ? spdlog::level::warn : spdlog::level::debug,
                "epoch {}: activation link to {} at {}: {}", epoch_.value(), worker_id_, address_,
                reason.ToString());
  }
  trouble_ = reason.ok() ? absl::UnavailableError("it closed the link") : reason;
  if (!welcomed_) next_dial_ = now + backoff_.Next();
}

void NextStageLink::Send(v1::Frame frame, Payload payload) {
  if (worker_id_.empty() || Epoch(frame.epoch()) != epoch_) return;
  if (!welcomed_) {
    waiting_.push_back({std::move(frame), std::move(payload)});
    return;
  }
  SendNow(std::move(frame), std::move(payload));
}

void NextStageLink::SendNow(v1::Frame frame, Payload payload) {
  if (link_ == nullptr) return;  // broken; Tick says so in a while
  const absl::Status status = link_->Send(std::move(frame), std::move(payload));
  // A link that closed says so itself. A full one is closed here, and says so too.
  if (absl::IsResourceExhausted(status)) link_->Close(status);
}

}  // namespace tutti
