#include "worker/links/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "transport/roles.h"
#include "worker/limits.h"

namespace tutti::worker {

CoordinatorLink::CoordinatorLink(LinkContext* context, const std::vector<std::string>& addresses,
                                 Watcher* watcher, Events events)
    : context_(context), watcher_(watcher), events_(std::move(events)), lease_(kLeaseMax) {
  attempts_.reserve(addresses.size());
  const Duration slowest = addresses.size() == 1 ? kSlowestRedial : kSlowestLeaderRedial;
  for (const std::string& address : addresses) {
    attempts_.push_back({.address = address, .backoff = Backoff(kFirstRedial, slowest)});
  }
}

void CoordinatorLink::Tick(Instant now) {
  if (joined() || closed_) return;
  for (Attempt& attempt : attempts_) {
    if (!attempt.link) {
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
  attempt->link = context_->Dial(
      {attempt->address, transport::IdentityUri({transport::Role::kCoordinator, ""})}, this,
      v1::LINK_PURPOSE_CONTROL, Epoch(),
      {.shared_memory = "", .device_link = "", .advertised = attempt->advertised});
  attempt->welcome_deadline = now + kWelcomeTimeout;
}

Instant CoordinatorLink::next_wake() const {
  Instant wake = kInstantNever;
  if (joined() || closed_) return wake;
  for (const Attempt& attempt : attempts_) {
    wake = std::min(wake, attempt.link ? attempt.welcome_deadline : attempt.next_dial);
  }
  return wake;
}

CoordinatorLink::Attempt* CoordinatorLink::Find(LinkId id) {
  return &*std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
    return attempt.link && attempt.link.id() == id;
  });
}

void CoordinatorLink::OnFrame(LinkId link, v1::Frame frame, transport::Payload, Instant now) {
  if (joined()) return events_.on_frame(std::move(frame));
  HandleHandshake(Find(link), frame, now);
}

void CoordinatorLink::HandleHandshake(Attempt* attempt, const v1::Frame& frame, Instant now) {
  if (!frame.has_welcome()) {
    return Retry(attempt, absl::InvalidArgumentError("it did not answer hello with welcome"), now);
  }
  const uint32_t incarnation = frame.welcome().incarnation();
  if (incarnation < context_->incarnation) {
    const absl::Status refused = absl::FailedPreconditionError(absl::StrCat(
        "it is coordinator number ", incarnation, ", and worker \"", context_->hello.worker_id(),
        "\" has obeyed number ", context_->incarnation, ": it does not lead any more"));
    spdlog::warn("refusing the coordinator at {}: {}", attempt->address,
                 std::string(refused.message()));
    attempt->link->Close(refused);
    return Retry(attempt, refused, now);
  }
  Join(attempt, frame.welcome());
}

void CoordinatorLink::Join(Attempt* attempt, const v1::Welcome& welcome) {
  for (Attempt& other : attempts_) {
    other.backoff.Reset();
    other.next_log = Instant();
    other.next_dial = Instant();
    if (&other == attempt || !other.link) continue;
    other.link->Close(absl::UnavailableError("this worker has found who leads"));
    other.link.reset();
  }
  joined_ = attempt;
  context_->incarnation = welcome.incarnation();
  context_->advertised = attempt->advertised;
  lease_ = std::clamp<Duration>(std::chrono::milliseconds(welcome.lease_ms()), kBeatIntervalMax,
                                kLeaseMax);
  watcher_->SetLink(attempt->link.end(),
                    std::clamp<Duration>(std::chrono::milliseconds(welcome.beat_interval_ms()),
                                         kBeatIntervalMin, kBeatIntervalMax));
  spdlog::info("joined the coordinator at {}{}", attempt->address,
               welcome.incarnation() == 0
                   ? ""
                   : absl::StrCat(", which leads as number ", welcome.incarnation()));
}

void CoordinatorLink::OnClosed(LinkId link, const absl::Status& reason, Instant now) {
  Attempt* const attempt = Find(link);
  const bool was_joined = attempt == joined_;
  if (was_joined) {
    spdlog::warn("the coordinator closed the link: {}", reason.ToString());
    attempt->next_log = now + kWaitingLogInterval;
    watcher_->TakeLink();
    joined_ = nullptr;
    context_->announcer.Forget();
  }
  Retry(attempt, reason, now);
  if (was_joined) events_.on_lost();
}

void CoordinatorLink::Retry(Attempt* attempt, const absl::Status& reason, Instant now) {
  // A link that never carried a frame was refused by nobody.
  const bool was_heard = attempt->link && attempt->link->stats().frames_in > 0;
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
    if (attempt.link) attempt.link->Close(reason);
    attempt.link.reset();
  }
  joined_ = nullptr;
  closed_ = true;
}

}  // namespace tutti::worker
