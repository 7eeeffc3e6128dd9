#include "worker/links/accepted_links.h"

#include <algorithm>
#include <atomic>
#include <string>
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

// Accepted links are numbered from here, dialled ones from 1.
constexpr uint64_t kFirstAcceptedLink = uint64_t{1} << 63;

absl::Status MustEqual(const char* what, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, " of the dialling worker is \"",
                                                    absl::CHexEscape(theirs),
                                                    "\", of this worker \"", ours, "\""));
}

void CloseRefused(const OwnedLink& link, const absl::Status& reason) {
  if (!absl::IsUnavailable(reason)) {
    spdlog::warn("refusing the link from {}: {}", link->peer(), reason.ToString());
  }
  link->Close(reason);
}

}  // namespace

void AcceptedLink::Welcome(OwnedLink link, const v1::Hello& hello) {
  link_ = std::move(link);
  link_.GiveTo(this);
  is_used_ = false;
  v1::Frame frame;
  frame.set_epoch(epoch().value());
  v1::Welcome* const welcome = frame.mutable_welcome();
  const std::string& memory = hello.shared_memory();
  welcome->set_shared_memory(!memory.empty() && answers_.to_memory && answers_.to_memory(memory));
  if (answers_.to_device) welcome->set_device_link(answers_.to_device(hello.device_link()));
  Up(*welcome, welcome->shared_memory());
  (void)transport::SendOrClose(link_.get(), std::move(frame));
  spdlog::debug("epoch {}: {} has dialled", EpochName(epoch()), worker_id());
}

void AcceptedLink::Close(const absl::Status& reason) {
  if (link_) link_->Close(reason);
  link_.reset();
}

void AcceptedLink::Send(v1::Frame frame, transport::Payload payload) {
  if (!link_) return;
  (void)transport::SendOrClose(link_.get(), std::move(frame), std::move(payload));
}

void AcceptedLink::OnFrame(LinkId, v1::Frame frame, transport::Payload payload, Instant) {
  is_used_ = true;
  events().on_frame(std::move(frame), std::move(payload));
}

// A dead worker is missed by the coordinator.
void AcceptedLink::OnClosed(LinkId, const absl::Status& reason, Instant now) {
  link_.reset();
  spdlog::warn("epoch {}: the link from {} closed: {}", EpochName(epoch()), worker_id(),
               reason.ToString());
  events().on_closed(reason, now);
}

transport::AcceptCallback AcceptInto(std::shared_ptr<WorkerMailbox> mailbox) {
  return [mailbox = std::move(mailbox),
          next = std::make_shared<std::atomic<uint64_t>>(kFirstAcceptedLink),
          backlog = std::make_shared<AcceptedBacklog>()](
             std::unique_ptr<transport::Link> link) -> std::unique_ptr<transport::LinkHandler> {
    const LinkId id((*next)++);
    auto place = backlog->Take(kAcceptedLinksKept);
    if (!place.has_value()) {
      link->Close(absl::ResourceExhaustedError("this worker is busy; try again in a moment"));
      return nullptr;
    }
    auto budget = transport::ReceiveBudget::OfStranger();
    mailbox->Post(LinkAccepted{id, std::move(link), budget, std::move(place)});
    return std::make_unique<PostingHandler>(id, mailbox, std::move(budget));
  };
}

void AcceptedLinks::Begin(Epoch epoch, std::vector<AcceptedLink*> expected) {
  epoch_ = epoch;
  expected_ = std::move(expected);
}

void AcceptedLinks::End(const absl::Status& reason) {
  epoch_ = Epoch();
  for (AcceptedLink* const expected : expected_) expected->Close(reason);
  expected_.clear();
}

void AcceptedLinks::OnAccepted(LinkAccepted accepted, Instant now) {
  MakeRoom();
  strangers_[accepted.link] = {
      .link = OwnedLink(&context_->links, accepted.link, this, std::move(accepted.end)),
      .budget = std::move(accepted.budget),
      .hello_deadline = now + kHelloTimeout};
}

void AcceptedLinks::MakeRoom() {
  const auto up = std::count_if(expected_.begin(), expected_.end(),
                                [](const AcceptedLink* expected) { return expected->is_up(); });
  if (strangers_.empty() || static_cast<int64_t>(strangers_.size()) + up < kAcceptedLinksKept) {
    return;
  }
  Refuse(strangers_.begin()->first, absl::ResourceExhaustedError(absl::StrCat(
                                        "this worker has ", kAcceptedLinksKept,
                                        " links; one without hello makes way for a newer one")));
}

void AcceptedLinks::OnFrame(LinkId link, v1::Frame frame, transport::Payload, Instant) {
  const absl::StatusOr<AcceptedLink*> expected = CheckHello(frame);
  if (!expected.ok()) return Refuse(link, expected.status());
  if ((*expected)->is_up()) {
    if ((*expected)->is_used()) {
      return Refuse(link, absl::AlreadyExistsError(
                              absl::StrCat("epoch ", EpochName(epoch_), " has this link already")));
    }
    // It has dialled again because it never saw our welcome.
    CloseRefused((*expected)->link(), absl::AbortedError("replaced by a newer link"));
  }
  Stranger known = std::move(strangers_.at(link));
  strangers_.erase(link);
  if (known.budget != nullptr) known.budget->MarkKnown();
  (*expected)->Welcome(std::move(known.link), frame.hello());
}

void AcceptedLinks::OnClosed(LinkId link, const absl::Status&, Instant) { strangers_.erase(link); }

absl::StatusOr<AcceptedLink*> AcceptedLinks::CheckHello(const v1::Frame& frame) const {
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
  for (AcceptedLink* const expected : expected_) {
    if (expected->purpose() != theirs.purpose()) continue;
    if (expected->worker_id() == theirs.worker_id()) return expected;
    names.push_back(absl::StrCat("\"", expected->worker_id(), "\""));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "worker \"", absl::CHexEscape(theirs.worker_id()), "\" is not ",
      theirs.purpose() == v1::LINK_PURPOSE_ACTIVATION ? "the previous stage of"
                                                      : "a lower rank of this stage in",
      " epoch ", EpochName(epoch),
      "; expected: ", names.empty() ? "no worker" : absl::StrJoin(names, ", ")));
}

void AcceptedLinks::Refuse(LinkId stranger, const absl::Status& reason) {
  CloseRefused(strangers_.at(stranger).link, reason);
  strangers_.erase(stranger);
}

void AcceptedLinks::Tick(Instant now) {
  while (!strangers_.empty() && now >= strangers_.begin()->second.hello_deadline) {
    Refuse(strangers_.begin()->first, absl::DeadlineExceededError("no hello came"));
  }
}

Instant AcceptedLinks::next_wake() const {
  return strangers_.empty() ? kInstantNever : strangers_.begin()->second.hello_deadline;
}

}  // namespace tutti::worker
