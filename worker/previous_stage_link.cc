#include "worker/previous_stage_link.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti {
namespace {

absl::Status MustEqual(const char* what, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, " of the previous stage is \"",
                                                    absl::CHexEscape(theirs),
                                                    "\", of this worker \"", ours, "\""));
}

}  // namespace

void PreviousStageLink::Begin(Epoch epoch, const std::string& worker_id) {
  End(absl::UnavailableError(absl::StrCat("epoch ", epoch.value(), " begins")));
  epoch_ = epoch;
  worker_id_ = worker_id;
}

void PreviousStageLink::End(const absl::Status& reason) {
  epoch_ = Epoch();
  worker_id_.clear();
  current_ = LinkId();
  // Those that have not said hello yet may belong to what comes next.
  std::erase_if(links_, [&](auto& entry) {
    if (entry.second.hello_deadline != kInstantNever) return false;
    entry.second.end->Close(reason);
    return true;
  });
}

void PreviousStageLink::OnAccepted(LinkAccepted accepted, Instant now) {
  if (static_cast<int64_t>(links_.size()) >= kAcceptedLinksKept) {
    accepted.end->Close(absl::ResourceExhaustedError(
        absl::StrCat("this worker has ", kAcceptedLinksKept, " links already")));
    return;
  }
  links_[accepted.link] = {.end = std::move(accepted.end), .hello_deadline = now + kHelloTimeout};
}

bool PreviousStageLink::TakeFrame(LinkId link, const v1::Frame& frame) {
  Accepted& accepted = links_.at(link);
  if (link == current_) {
    accepted.used = true;
    return true;
  }
  const absl::Status status = CheckHello(frame);
  if (!status.ok()) {
    Refuse(link, status);
    return false;
  }
  // The peer may have dialled again because it never saw our welcome.
  if (current_ != LinkId()) {
    const Accepted& other = links_.at(current_);
    if (other.used) {
      Refuse(link, absl::AlreadyExistsError(
                       absl::StrCat("epoch ", epoch_.value(), " has its activation link already")));
      return false;
    }
    Refuse(current_, absl::AbortedError("replaced by a newer link"));
  }
  current_ = link;
  accepted.hello_deadline = kInstantNever;
  v1::Frame welcome;
  welcome.set_epoch(epoch_.value());
  welcome.mutable_welcome();
  (void)accepted.end->Send(std::move(welcome));  // a closed link says so itself
  spdlog::debug("epoch {}: activations come from {}", epoch_.value(), worker_id_);
  return false;
}

absl::Status PreviousStageLink::CheckHello(const v1::Frame& frame) const {
  if (!frame.has_hello()) {
    return absl::InvalidArgumentError("the first frame of a link must be hello");
  }
  const v1::Hello& theirs = frame.hello();
  const v1::Hello& ours = context_->hello;
  if (theirs.purpose() != v1::LINK_PURPOSE_ACTIVATION) {
    return absl::InvalidArgumentError("hello.purpose: this port takes activation links only");
  }
  TUTTI_RETURN_IF_ERROR(MustEqual("protocol version", absl::StrCat(theirs.protocol_version()),
                                  absl::StrCat(ours.protocol_version())));
  TUTTI_RETURN_IF_ERROR(MustEqual("cluster id", theirs.cluster_id(), ours.cluster_id()));
  TUTTI_RETURN_IF_ERROR(MustEqual("build", theirs.build(), ours.build()));
  TUTTI_RETURN_IF_ERROR(
      MustEqual("model fingerprint", theirs.model_fingerprint(), ours.model_fingerprint()));
  const Epoch epoch(frame.epoch());
  if (epoch > epoch_) {
    // Our own assign_shard is on the way; the peer dials again.
    return absl::UnavailableError(
        absl::StrCat("epoch ", epoch.value(), " has not begun here; it is ", epoch_.value()));
  }
  if (epoch < epoch_) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", epoch.value(), " is over; it is ", epoch_.value()));
  }
  if (worker_id_.empty() || theirs.worker_id() != worker_id_) {
    return absl::PermissionDeniedError(absl::StrCat(
        "worker \"", absl::CHexEscape(theirs.worker_id()), "\" is not the previous stage of epoch ",
        epoch.value(), "; that is \"", worker_id_, "\""));
  }
  return absl::OkStatus();
}

void PreviousStageLink::Refuse(LinkId link, const absl::Status& reason) {
  const auto found = links_.find(link);
  if (!absl::IsUnavailable(reason)) {
    spdlog::warn("refusing the link from {}: {}", found->second.end->peer(), reason.ToString());
  }
  found->second.end->Close(reason);
  links_.erase(found);
}

void PreviousStageLink::OnClosed(LinkId link, const absl::Status& reason) {
  links_.erase(link);
  if (link != current_) return;
  current_ = LinkId();
  // The sender reports it if the epoch goes on; a dead one is missed by the coordinator.
  spdlog::warn("epoch {}: the activation link from {} closed: {}", epoch_.value(), worker_id_,
               reason.ToString());
}

void PreviousStageLink::Tick(Instant now) {
  std::vector<LinkId> silent;
  for (const auto& [id, accepted] : links_) {
    if (now >= accepted.hello_deadline) silent.push_back(id);
  }
  for (const LinkId id : silent) Refuse(id, absl::DeadlineExceededError("no hello came"));
}

Instant PreviousStageLink::next_wake() const {
  Instant wake = kInstantNever;
  for (const auto& [id, accepted] : links_) wake = std::min(wake, accepted.hello_deadline);
  return wake;
}

}  // namespace tutti
