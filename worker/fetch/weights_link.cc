#include "worker/fetch/weights_link.h"

#include <utility>

#include "transport/roles.h"
#include "transport/send_or_close.h"
#include "worker/limits.h"

namespace tutti::worker {

// Posts what comes, within a budget: a coordinator that sends what nobody asked for is not read.
class WeightsLink::Receiver : public transport::LinkHandler {
 public:
  explicit Receiver(std::shared_ptr<Mailbox<Event>> mailbox)
      : mailbox_(std::move(mailbox)),
        budget_(transport::ReceiveBudget::OfKnownPeer(
            {.frames = 2 * kFetchWindow, .bytes = kFetchUnreadBytesMax})) {}

  void OnFrame(v1::Frame frame, transport::Payload payload) override {
    if (overflowed_) return;
    const int64_t bytes = static_cast<int64_t>(frame.ByteSizeLong()) + payload.size();
    if (auto unread = budget_->Count(bytes)) {
      mailbox_->Post(Answer{std::move(frame), std::move(payload), *std::move(unread)});
      return;
    }
    overflowed_ = true;
    mailbox_->Post(Closed{absl::ResourceExhaustedError("it sends more than was asked for")});
  }
  void OnClosed(absl::Status reason) override {
    if (reason.ok()) reason = absl::UnavailableError("it closed the link");
    if (!overflowed_) mailbox_->Post(Closed{std::move(reason)});
  }
  std::shared_ptr<transport::ReceiveBudget> budget() override { return budget_; }

 private:
  const std::shared_ptr<Mailbox<Event>> mailbox_;
  const std::shared_ptr<transport::ReceiveBudget> budget_;
  bool overflowed_ = false;  // owned by the transport's calls, which come one at a time
};

WeightsLink::WeightsLink(transport::Dialer* dialer, const std::string& address, v1::Hello hello)
    : mailbox_(std::make_shared<Mailbox<Event>>(2 * kFetchWindow)),
      link_(dialer->Dial({address, transport::IdentityUri({transport::Role::kCoordinator, ""})},
                         std::make_unique<Receiver>(mailbox_))) {
  v1::Frame frame;
  *frame.mutable_hello() = std::move(hello);
  frame.mutable_hello()->set_purpose(v1::LINK_PURPOSE_WEIGHTS);
  frame.mutable_hello()->set_takes_beats(true);
  Ask(std::move(frame));
}

void WeightsLink::Ask(v1::Frame question) {
  (void)transport::SendOrClose(link_.get(), std::move(question));
}

absl::StatusOr<std::optional<WeightsLink::Answer>> WeightsLink::Next(Instant deadline) {
  while (true) {
    if (taken_ == events_.size()) {
      taken_ = 0;
      mailbox_->Drain(deadline, &events_);
      if (events_.empty()) return std::nullopt;
    }
    Event event = std::move(events_[taken_++]);
    if (auto* const closed = std::get_if<Closed>(&event)) return closed->reason;
    auto& answer = std::get<Answer>(event);
    if (welcome_) return std::move(answer);
    if (!answer.frame.has_welcome()) {
      return absl::InvalidArgumentError("it did not answer hello with welcome");
    }
    welcome_ = true;
  }
}

}  // namespace tutti::worker
