#include "worker/links/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {

CoordinatorLink::CoordinatorLink(LinkContext* context, std::string address, Watcher* watcher)
    : context_(context),
      address_(std::move(address)),
      watcher_(watcher),
      backoff_(kFirstRedial, kSlowestRedial),
      lease_(kLeaseMax) {}

void CoordinatorLink::Tick(Instant now) {
  if (link_ == nullptr) {
    if (now < next_dial_) return;
    id_ = context_->NewId();
    link_ = context_->Dial(address_, id_, v1::LINK_PURPOSE_CONTROL, Epoch());
    welcome_deadline_ = now + kWelcomeTimeout;
    return;
  }
  if (!joined_ && now >= welcome_deadline_) {
    Retry(absl::DeadlineExceededError(
              absl::StrCat("no welcome within ", Milliseconds(kWelcomeTimeout), " ms")),
          now);
  }
}

Instant CoordinatorLink::next_wake() const {
  if (link_ == nullptr) return next_dial_;
  return joined_ ? kInstantNever : welcome_deadline_;
}

bool CoordinatorLink::HandleHandshake(const v1::Frame& frame, Instant now) {
  if (joined_) return false;
  if (!frame.has_welcome()) {
    Retry(absl::InvalidArgumentError("it did not answer hello with welcome"), now);
    return true;
  }
  joined_ = true;
  backoff_.Reset();
  next_log_ = Instant();
  lease_ = std::clamp<Duration>(std::chrono::milliseconds(frame.welcome().lease_ms()),
                                kBeatIntervalMax, kLeaseMax);
  watcher_->SetLink(
      link_, std::clamp<Duration>(std::chrono::milliseconds(frame.welcome().beat_interval_ms()),
                                  kBeatIntervalMin, kBeatIntervalMax));
  spdlog::info("joined the coordinator at {}", address_);
  return true;
}

bool CoordinatorLink::OnClosed(const absl::Status& reason, Instant now) {
  const bool was_joined = joined_;
  if (was_joined) {
    spdlog::warn("the coordinator closed the link: {}", reason.ToString());
    next_log_ = now + kWaitingLogInterval;
  }
  Retry(reason, now);
  return was_joined;
}

void CoordinatorLink::Retry(const absl::Status& reason, Instant now) {
  watcher_->TakeLink();
  link_.reset();
  joined_ = false;
  next_dial_ = now + backoff_.Next();
  if (now < next_log_) return;
  next_log_ = now + kWaitingLogInterval;
  if (reason.ok() || absl::IsUnavailable(reason)) {
    spdlog::info("waiting for coordinator at {} ({})", address_, std::string(reason.message()));
  } else {
    spdlog::error("coordinator at {} refuses this worker: {}; trying again", address_,
                  reason.ToString());
  }
}

void CoordinatorLink::Send(v1::Frame frame) {
  if (!joined_) return;
  (void)transport::SendOrClose(link_.get(), std::move(frame));
}

void CoordinatorLink::Close(const absl::Status& reason) {
  watcher_->TakeLink();
  if (link_ != nullptr) link_->Close(reason);
  link_.reset();
  joined_ = false;
  next_dial_ = kInstantNever;
}

}  // namespace tutti::worker
