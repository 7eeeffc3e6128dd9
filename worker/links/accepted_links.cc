#include "worker/links/accepted_links.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/epochs.h"
#include "base/protocol.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

absl::Status MustEqual(const char* what, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, " of the dialling worker is \"",
                                                    absl::CHexEscape(theirs),
                                                    "\", of this worker \"", ours, "\""));
}

}  // namespace

void AcceptedLinks::Begin(Epoch epoch, std::vector<Expected> expected) {
  End(absl::UnavailableError(absl::StrCat("epoch ", EpochName(epoch), " begins")));
  epoch_ = epoch;
  expected_ = std::move(expected);
  current_.assign(expected_.size(), LinkId());
}

void AcceptedLinks::End(const absl::Status& reason) {
  epoch_ = Epoch();
  expected_.clear();
  current_.clear();
  // Links whose hello has not come yet may belong to the next epoch.
  std::erase_if(links_, [&](auto& entry) {
    if (entry.second.hello_deadline != kInstantNever) return false;
    entry.second.end->Close(reason);
    return true;
  });
}

void AcceptedLinks::OnAccepted(LinkAccepted accepted, Instant now) {
  if (static_cast<int64_t>(links_.size()) >= kAcceptedLinksKept) MakeRoom();
  links_[accepted.link] = {.end = std::move(accepted.end),
                           .budget = std::move(accepted.budget),
                           .hello_deadline = now + kHelloTimeout};
}

// Ids grow, so the first is the oldest. Those that have said hello are as many as expected workers.
void AcceptedLinks::MakeRoom() {
  const auto oldest = std::find_if(links_.begin(), links_.end(), [](const auto& entry) {
    return entry.second.hello_deadline != kInstantNever;
  });
  if (oldest == links_.end()) return;
  Refuse(oldest->first, absl::ResourceExhaustedError(
                            absl::StrCat("this worker has ", kAcceptedLinksKept,
                                         " links; one without hello makes way for a newer one")));
}

std::optional<size_t> AcceptedLinks::IndexOf(LinkId id) const {
  const auto found = std::find(current_.begin(), current_.end(), id);
  if (id == LinkId() || found == current_.end()) return std::nullopt;
  return static_cast<size_t>(found - current_.begin());
}

std::optional<size_t> AcceptedLinks::HandleFrame(LinkId link, const v1::Frame& frame) {
  Accepted& accepted = links_.at(link);
  if (const std::optional<size_t> known = IndexOf(link); known.has_value()) {
    accepted.used = true;
    return known;
  }
  const absl::StatusOr<size_t> index = CheckHello(frame);
  if (!index.ok()) {
    Refuse(link, index.status());
    return std::nullopt;
  }
  LinkId& current = current_[*index];
  // The peer may have dialled again because it never saw our welcome.
  if (current != LinkId()) {
    if (links_.at(current).used) {
      Refuse(link, absl::AlreadyExistsError(
                       absl::StrCat("epoch ", EpochName(epoch_), " has this link already")));
      return std::nullopt;
    }
    Refuse(current, absl::AbortedError("replaced by a newer link"));
  }
  current = link;
  accepted.hello_deadline = kInstantNever;
  if (accepted.budget != nullptr) accepted.budget->MarkKnown();
  v1::Frame welcome;
  welcome.set_epoch(epoch_.value());
  const std::string& offer = frame.hello().shared_memory();
  const auto& accept_memory = expected_[*index].accept_memory;
  welcome.mutable_welcome()->set_shared_memory(!offer.empty() && accept_memory != nullptr &&
                                               accept_memory(offer));
  if (const auto& answer = expected_[*index].answer_device; answer != nullptr) {
    welcome.mutable_welcome()->set_device_link(answer(frame.hello().device_link()));
  }
  (void)transport::SendOrClose(accepted.end.get(), std::move(welcome));
  spdlog::debug("epoch {}: {} has dialled", EpochName(epoch_), expected_[*index].worker_id);
  return std::nullopt;
}

void AcceptedLinks::Send(size_t index, v1::Frame frame, transport::Payload payload) {
  const auto found = links_.find(current_[index]);
  if (found == links_.end()) return;
  (void)transport::SendOrClose(found->second.end.get(), std::move(frame), std::move(payload));
}

absl::StatusOr<size_t> AcceptedLinks::CheckHello(const v1::Frame& frame) const {
  if (!frame.has_hello()) {
    return absl::InvalidArgumentError("the first frame of a link must be hello");
  }
  const v1::Hello& theirs = frame.hello();
  const v1::Hello& ours = context_->hello;
  if (theirs.purpose() != v1::LINK_PURPOSE_ACTIVATION &&
      theirs.purpose() != v1::LINK_PURPOSE_COLLECTIVE) {
    return absl::InvalidArgumentError(
        "hello.purpose: this port accepts activation links and rank links only");
  }
  TUTTI_RETURN_IF_ERROR(CheckProtocol("the worker that dials", theirs.protocol_version(),
                                      absl::StrCat("worker ", ours.worker_id()),
                                      ours.protocol_version()));
  TUTTI_RETURN_IF_ERROR(MustEqual("cluster id", theirs.cluster_id(), ours.cluster_id()));
  TUTTI_RETURN_IF_ERROR(
      MustEqual("model fingerprint", theirs.model_fingerprint(), ours.model_fingerprint()));
  const Epoch epoch(frame.epoch());
  if (epoch > epoch_) {
    // Our own assign_shard is on the way; the peer dials again.
    return absl::UnavailableError(
        absl::StrCat("epoch ", EpochName(epoch), " has not begun here; it is ", EpochName(epoch_)));
  }
  if (epoch < epoch_) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", EpochName(epoch), " is over; it is ", EpochName(epoch_)));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i].purpose != theirs.purpose()) continue;
    if (expected_[i].worker_id == theirs.worker_id()) return i;
    names.push_back(absl::StrCat("\"", expected_[i].worker_id, "\""));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "worker \"", absl::CHexEscape(theirs.worker_id()), "\" is not ",
      theirs.purpose() == v1::LINK_PURPOSE_ACTIVATION ? "the previous stage of"
                                                      : "a lower rank of this stage in",
      " epoch ", EpochName(epoch),
      "; expected: ", names.empty() ? "no worker" : absl::StrJoin(names, ", ")));
}

void AcceptedLinks::Refuse(LinkId link, const absl::Status& reason) {
  const auto found = links_.find(link);
  if (!absl::IsUnavailable(reason)) {
    spdlog::warn("refusing the link from {}: {}", found->second.end->peer(), reason.ToString());
  }
  found->second.end->Close(reason);
  links_.erase(found);
}

std::optional<size_t> AcceptedLinks::OnClosed(LinkId link, const absl::Status& reason) {
  links_.erase(link);
  const std::optional<size_t> index = IndexOf(link);
  if (!index.has_value()) return std::nullopt;
  current_[*index] = LinkId();
  // A dead worker is missed by the coordinator.
  spdlog::warn("epoch {}: the link from {} closed: {}", EpochName(epoch_),
               expected_[*index].worker_id, reason.ToString());
  return index;
}

void AcceptedLinks::Tick(Instant now) {
  std::vector<LinkId> silent;
  for (const auto& [id, accepted] : links_) {
    if (now >= accepted.hello_deadline) silent.push_back(id);
  }
  for (const LinkId id : silent) Refuse(id, absl::DeadlineExceededError("no hello came"));
}

Instant AcceptedLinks::next_wake() const {
  Instant wake = kInstantNever;
  for (const auto& [id, accepted] : links_) wake = std::min(wake, accepted.hello_deadline);
  return wake;
}

}  // namespace tutti::worker
