// Events of links for the executor: everything that happens on a transport thread becomes an event
// in the one mailbox.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "transport/receive_budget.h"
#include "transport/send_or_close.h"
#include "worker/links/announcer.h"
#include "worker/links/link_table.h"

namespace tutti::worker {

struct LinkFrame {
  LinkId link;
  v1::Frame frame;
  transport::Payload payload;
  transport::ReceiveBudget::Unread unread;  // until the executor takes it
};
struct LinkClosed {
  LinkId link;
  absl::Status reason;
};
// Links accepted of which the executor does not know yet; it may be busy for the length of a step.
// Thread: any.
class AcceptedBacklog : public std::enable_shared_from_this<AcceptedBacklog> {
 public:
  class Place {
   public:
    explicit Place(std::shared_ptr<AcceptedBacklog> backlog) : backlog_(std::move(backlog)) {}
    Place(Place&&) = default;
    Place& operator=(Place&&) = default;
    ~Place() {
      if (backlog_ != nullptr) --backlog_->taken_;
    }

   private:
    std::shared_ptr<AcceptedBacklog> backlog_;
  };
  // Nothing when `places` are taken.
  std::optional<Place> Take(int64_t places) {
    if (++taken_ <= places) return Place(shared_from_this());
    --taken_;
    return std::nullopt;
  }

 private:
  std::atomic<int64_t> taken_{0};
};
// A peer dialled us.
struct LinkAccepted {
  LinkId link;
  std::unique_ptr<transport::Link> end;
  std::shared_ptr<transport::ReceiveBudget> budget;  // a stranger's, until hello was accepted
  std::optional<AcceptedBacklog::Place> place;
};
struct StopWanted {};
// A wish to stop when the coordinator says so; until then it serves.
struct LeaveWanted {
  Duration grace;
};

using WorkerEvent = std::variant<LinkFrame, LinkClosed, LinkAccepted, StopWanted, LeaveWanted>;
using WorkerMailbox = Mailbox<WorkerEvent>;

// Posts the frames of one link, within its budget: a peer that sends faster than the executor reads
// is not read any more until it does, and no other link is disturbed. A link that cannot wait
// (transport/inproc_link.h) is reported as closed and not listened to any more.
class PostingHandler : public transport::LinkHandler {
 public:
  PostingHandler(LinkId link, std::shared_ptr<WorkerMailbox> mailbox,
                 std::shared_ptr<transport::ReceiveBudget> budget)
      : link_(link), mailbox_(std::move(mailbox)), budget_(std::move(budget)) {}

  void OnFrame(v1::Frame frame, transport::Payload payload) override {
    if (overflowed_) return;
    const int64_t bytes = static_cast<int64_t>(frame.ByteSizeLong()) + payload.size();
    if (auto unread = budget_->Count(bytes)) {
      mailbox_->Post(LinkFrame{link_, std::move(frame), std::move(payload), *std::move(unread)});
      return;
    }
    overflowed_ = true;
    mailbox_->Post(LinkClosed{
        link_, absl::ResourceExhaustedError("the peer sends frames faster than they are read")});
  }
  void OnClosed(absl::Status reason) override {
    if (!overflowed_) mailbox_->Post(LinkClosed{link_, std::move(reason)});
  }
  std::shared_ptr<transport::ReceiveBudget> budget() override { return budget_; }

 private:
  const LinkId link_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  const std::shared_ptr<transport::ReceiveBudget> budget_;
  bool overflowed_ = false;  // owned by the transport's calls, which come one at a time
};

// Shared by the links of one worker.  Thread: the executor's.
struct LinkContext {
  transport::Dialer* dialer = nullptr;
  std::shared_ptr<WorkerMailbox> mailbox;
  v1::Hello hello;  // about this worker; `purpose` is filled in for each link
  LinkTable links = {};
  uint64_t last_dialled = 0;
  // The highest number of a coordinator that was obeyed; said to coordinators.
  uint32_t incarnation = 0;
  Announcer announcer = {};
  // The address that it said to the coordinator that was joined last.
  std::string advertised = {};

  // The offers in a hello, beside who this worker is; empty where there is none.
  struct Offers {
    std::string shared_memory;
    std::string device_link;  // a device's description
    std::string advertised;
  };

  // Dials and sends hello. The peer's answer comes to `owner`.
  OwnedLink Dial(const transport::DialTarget& target, LinkOwner* owner, v1::LinkPurpose purpose,
                 Epoch epoch, const Offers& offers) {
    const LinkId id(++last_dialled);
    auto end = dialer->Dial(target, std::make_unique<PostingHandler>(
                                        id, mailbox, transport::ReceiveBudget::OfKnownPeer()));
    OwnedLink link(&links, id, owner, std::move(end));
    v1::Frame frame;
    frame.set_epoch(epoch.value());
    *frame.mutable_hello() = hello;
    frame.mutable_hello()->set_purpose(purpose);
    frame.mutable_hello()->set_shared_memory(offers.shared_memory);
    frame.mutable_hello()->set_device_link(offers.device_link);
    frame.mutable_hello()->set_advertised_address(offers.advertised);
    if (purpose == v1::LINK_PURPOSE_CONTROL) frame.mutable_hello()->set_incarnation(incarnation);
    // A link that is closed already says so in its OnClosed.
    (void)transport::SendOrClose(link.get(), std::move(frame));
    return link;
  }
};

}  // namespace tutti::worker
