#include "worker/links/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "transport/roles.h"
#include "worker/limits.h"

namespace tutti::worker {

CoordinatorLink::CoordinatorLink(LinkContext* context, const std::vector<std::string>& addresses,
                                 Watcher* watcher)
    : context_(context), watcher_(watcher), lease_(kLeaseMax) {
  const Duration slowest = addresses.size() == 1 ? kSlowestRedial : kSlowestLeaderRedial;
  for (const std::string& address : addresses) {
    attempts_.push_back({.address = address, .backoff = Backoff(kFirstRedial, slowest)});
  }
}

void CoordinatorLink::Tick(Instant now) {
  if (joined() || closed_) return;
  for (Attempt& attempt : attempts_) {
    if (attempt.link == nullptr) {
      if (now >= attempt.next_dial) Dial(&attempt, now);
    } else if (now >= attempt.welcome_deadline) {
      Retry(&attempt,
            absl::DeadlineExceededError(
                absl::StrCat("no welcome within ", Milliseconds(kWelcomeTimeout), " ms")),
            now);
    }
  }
}

void CoordinatorLink::Dial(Attempt* attempt, Instant now) {
  const absl::StatusOr<std::string> own = context_->announcer.AddressFor(attempt->address);
  if (absl::IsAborted(own.status())) {
    attempt->next_dial = now + kFirstRedial;
    return;
  }
  if (!own.ok()) return Retry(attempt, own.status(), now);
  attempt->advertised = *own;
  attempt->id = context_->NewId();
  attempt->link = context_->Dial(
      {attempt->address, transport::IdentityUri({transport::Role::kCoordinator, ""})}, attempt->id,
      v1::LINK_PURPOSE_CONTROL, Epoch(),
      {.shared_memory = "", .device_link = "", .advertised = attempt->advertised});
  attempt->welcome_deadline = now + kWelcomeTimeout;
}

Instant CoordinatorLink::next_wake() const {
  Instant wake = kInstantNever;
  if (joined() || closed_) return wake;
  for (const Attempt& attempt : attempts_) {
    wake = std::min(wake, attempt.link == nullptr ? attempt.next_dial : attempt.welcome_deadline);
  }
  return wake;
}

bool CoordinatorLink::Is(LinkId id) const {
  return std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.link != nullptr && attempt.id == id;
  });
}

// REQUIRES: Is(id)
CoordinatorLink::Attempt* CoordinatorLink::Find(LinkId id) {
  return &*std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.link != nullptr && attempt.id == id;
  });
}

bool CoordinatorLink::HandleHandshake(LinkId id, const v1::Frame& frame, Instant now) {
  if (joined()) return false;
  Attempt* const attempt = Find(id);
  if (!frame.has_welcome()) {
    Retry(attempt, absl::InvalidArgumentError("it did not answer hello with welcome"), now);
    return true;
  }
  const uint32_t incarnation = frame.welcome().incarnation();
  if (incarnation < context_->incarnation) {
    const absl::Status refused = absl::FailedPreconditionError(absl::StrCat(
        "it is coordinator number ", incarnation, ", and worker \"", context_->hello.worker_id(),
        "\" has obeyed number ", context_->incarnation, ": it does not lead any more"));
    spdlog::warn("refusing the coordinator at {}: {}", attempt->address,
                 std::string(refused.message()));
    attempt->link->Close(refused);
    Retry(attempt, refused, now);
    return true;
  }
  Join(attempt, frame.welcome());
  return true;
}

void CoordinatorLink::Join(Attempt* attempt, const v1::Welcome& welcome) {
  for (Attempt& other : attempts_) {
    other.backoff.Reset();
    other.next_log = Instant();
    other.next_dial = Instant();
    if (&other == attempt || other.link == nullptr) continue;
    other.link->Close(absl::UnavailableError("this worker has found who leads"));
    other.link.reset();
  }
  joined_ = attempt;
  context_->incarnation = welcome.incarnation();
  context_->advertised = attempt->advertised;
  lease_ = std::clamp<Duration>(std::chrono::milliseconds(welcome.lease_ms()), kBeatIntervalMax,
                                kLeaseMax);
  watcher_->SetLink(attempt->link,
                    std::clamp<Duration>(std::chrono::milliseconds(welcome.beat_interval_ms()),
                                         kBeatIntervalMin, kBeatIntervalMax));
  spdlog::info("joined the coordinator at {}{}", attempt->address,
               welcome.incarnation() == 0
                   ? ""
                   : absl::StrCat(", which leads as number ", welcome.incarnation()));
}

bool CoordinatorLink::OnClosed(LinkId id, const absl::Status& reason, Instant now) {
  Attempt* const attempt = Find(id);
  const bool was_joined = attempt == joined_;
  if (was_joined) {
    spdlog::warn("the coordinator closed the link: {}", reason.ToString());
    attempt->next_log = now + kWaitingLogInterval;
    watcher_->TakeLink();
    joined_ = nullptr;
    context_->announcer.Forget();
  }
  Retry(attempt, reason, now);
  return was_joined;
}

void CoordinatorLink::Retry(Attempt* attempt, const absl::Status& reason, Instant now) {
  // A link that never carried a frame was refused by nobody.
  const bool was_heard = attempt->link != nullptr && attempt->link->stats().frames_in > 0;
  attempt->link.reset();
  attempt->next_dial = now + attempt->backoff.Next();
  if (now < attempt->next_log) return;
  attempt->next_log = now + kWaitingLogInterval;
  const std::string why(reason.message());
  if (reason.ok() || absl::IsUnavailable(reason)) {
    spdlog::info("waiting for the coordinator at {} ({})", attempt->address, why);
  } else if (was_heard) {
    spdlog::error("the coordinator at {} refuses this worker: {}; trying again", attempt->address,
                  why);
  } else {
    spdlog::error("no link to the coordinator at {}: {}; trying again", attempt->address, why);
  }
}

void CoordinatorLink::Send(v1::Frame frame) {
  if (!joined()) return;
  (void)transport::SendOrClose(joined_->link.get(), std::move(frame));
}

void CoordinatorLink::Close(const absl::Status& reason) {
  watcher_->TakeLink();
  for (Attempt& attempt : attempts_) {
    if (attempt.link != nullptr) attempt.link->Close(reason);
    attempt.link.reset();
  }
  joined_ = nullptr;
  closed_ = true;
}

}  // namespace tutti::worker
