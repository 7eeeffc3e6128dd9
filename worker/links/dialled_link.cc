#include "worker/links/dialled_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "spdlog/spdlog.h"
#include "transport/frame_rules.h"
#include "worker/limits.h"

namespace tutti::worker {

DialledLink::DialledLink(LinkContext* context, const PeerFinder* peers, v1::LinkPurpose purpose,
                         Epoch epoch, std::string worker_id, Events events)
    : PeerLink(purpose, epoch, std::move(worker_id), std::move(events)),
      context_(context),
      peers_(peers),
      backoff_(kFirstRedial, kSlowestStageRedial) {}

absl::Status DialledLink::Begin(Instant now) {
  absl::StatusOr<PeerFinder::Found> found = peers_->Find(worker_id());
  if (!found.ok()) {
    Report(found.status());
    return found.status();
  }
  found_ = *std::move(found);
  Dial();
  return absl::OkStatus();
}

// "activation link to w1 at 10.0.0.7:50060"
std::string DialledLink::Name() const {
  return absl::StrCat(purpose() == v1::LINK_PURPOSE_ACTIVATION ? "activation" : "rank", " link to ",
                      worker_id(), " at ", found_->address);
}

void DialledLink::Dial() {
  link_ = context_->Dial(
      found_->target, this, purpose(), epoch(),
      {.shared_memory = shared_memory_, .device_link = device_link_, .advertised = ""});
  next_dial_ = kInstantNever;
}

absl::Status DialledLink::Tick(Instant now) {
  if (now >= give_up_) {
    give_up_ = kInstantNever;
    return Annotate(*trouble_, Name());
  }
  if (now >= next_dial_) Dial();
  return absl::OkStatus();
}

Instant DialledLink::next_wake() const { return std::min(next_dial_, give_up_); }

void DialledLink::OnFrame(LinkId, v1::Frame frame, transport::Payload payload, Instant now) {
  if (!welcomed_ && frame.has_welcome()) return HandleWelcome(frame.welcome());
  const bool is_due = purpose() == v1::LINK_PURPOSE_COLLECTIVE ||
                      (!device_link_.empty() && frame.has_device_link_up());
  if (welcomed_ && is_due) return events().on_frame(std::move(frame), std::move(payload));
  Retry(absl::InvalidArgumentError(
            absl::StrCat("unexpected frame ", transport::BodyName(frame),
                         welcomed_ ? " after welcome" : " where welcome is due")),
        now);
}

void DialledLink::HandleWelcome(const v1::Welcome& welcome) {
  welcomed_ = true;
  trouble_.reset();
  give_up_ = kInstantNever;
  Report(absl::OkStatus());
  spdlog::debug("epoch {}: {} is up", EpochName(epoch()), Name());
  while (!waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SendNow(std::move(next.frame), std::move(next.payload));
  }
  Up(welcome, !shared_memory_.empty() && welcome.shared_memory());
}

// Before it was up, it is dialled again.
void DialledLink::OnClosed(LinkId, const absl::Status& reason, Instant now) {
  if (welcomed_) events().on_closed(reason, now);
  Retry(reason, now);
}

void DialledLink::Retry(const absl::Status& reason, Instant now) {
  link_.reset();
  if (!trouble_.has_value()) {
    give_up_ = now + (welcomed_ ? kBrokenLinkGrace : kUnreachablePatience);
    spdlog::log(welcomed_ ? spdlog::level::warn : spdlog::level::debug, "epoch {}: {}: {}",
                EpochName(epoch()), Name(), reason.ToString());
  }
  trouble_ = reason.ok() ? absl::UnavailableError("it closed the link") : reason;
  Report(*trouble_);
  if (!welcomed_) next_dial_ = now + backoff_.Next();
}

void DialledLink::Report(const absl::Status& state) {
  v1::LinkState report;
  report.set_worker_id(worker_id());
  report.set_purpose(purpose());
  report.set_up(state.ok());
  if (!state.ok()) {
    report.set_error(found_.has_value() ? absl::StrCat(found_->address, ": ", state.ToString())
                                        : state.ToString());
  }
  if (report.up() == reported_.up() && report.error() == reported_.error()) return;
  reported_ = std::move(report);
  report_due_ = true;
}

std::optional<v1::LinkState> DialledLink::PopReport() {
  if (!std::exchange(report_due_, false)) return std::nullopt;
  return reported_;
}

void DialledLink::Send(v1::Frame frame, transport::Payload payload) {
  if (Epoch(frame.epoch()) != epoch()) return;
  if (!welcomed_) {
    waiting_.push_back({std::move(frame), std::move(payload)});
    return;
  }
  SendNow(std::move(frame), std::move(payload));
}

void DialledLink::SendNow(v1::Frame frame, transport::Payload payload) {
  if (!link_) return;  // broken; Tick says so in a while
  (void)transport::SendOrClose(link_.get(), std::move(frame), std::move(payload));
}

}  // namespace tutti::worker
