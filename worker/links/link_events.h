// Events of links for the executor: everything that happens on a transport thread becomes an event
// in the one mailbox.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/mailbox.h"
#include "transport/link.h"
#include "tutti/v1/peer.pb.h"

namespace tutti::worker {

// Names a link within one worker process; never used twice.
using LinkId = StrongInt<struct LinkIdTag, uint64_t>;

struct LinkFrame {
  LinkId link;
  v1::Frame frame;
  transport::Payload payload;
};
struct LinkClosed {
  LinkId link;
  absl::Status reason;
};
// A peer dialled us.
struct LinkAccepted {
  LinkId link;
  std::unique_ptr<transport::Link> end;
};
struct StopWanted {};

using WorkerEvent = std::variant<LinkFrame, LinkClosed, LinkAccepted, StopWanted>;
using WorkerMailbox = Mailbox<WorkerEvent>;

// Posts the frames of one link. A peer that sends faster than the executor reads, beyond the
// mailbox's capacity, is reported as closed and not listened to any more.
class PostingHandler : public transport::LinkHandler {
 public:
  PostingHandler(LinkId link, std::shared_ptr<WorkerMailbox> mailbox)
      : link_(link), mailbox_(std::move(mailbox)) {}

  void OnFrame(v1::Frame frame, transport::Payload payload) override {
    if (overflowed_) return;
    if (mailbox_->TryPost(LinkFrame{link_, std::move(frame), std::move(payload)})) return;
    overflowed_ = true;
    mailbox_->Post(LinkClosed{
        link_, absl::ResourceExhaustedError("the peer sends frames faster than they are read")});
  }
  void OnClosed(absl::Status reason) override {
    if (!overflowed_) mailbox_->Post(LinkClosed{link_, std::move(reason)});
  }

 private:
  const LinkId link_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  bool overflowed_ = false;  // owned by the transport's calls, which come one at a time
};

// Shared by the links of one worker.  Thread: the executor's.
struct LinkContext {
  transport::Dialer* dialer = nullptr;
  std::shared_ptr<WorkerMailbox> mailbox;
  v1::Hello hello;  // about this worker; `purpose` is filled in for each link
  uint64_t last_link = 0;

  LinkId NewId() { return LinkId(++last_link); }

  // Dials and sends hello, with an offer of shared memory and a device's description if there are
  // any. The peer's answer comes as events of `id`.
  std::unique_ptr<transport::Link> Dial(const std::string& target, LinkId id,
                                        v1::LinkPurpose purpose, Epoch epoch,
                                        const std::string& shared_memory = "",
                                        const std::string& device_link = "") const {
    auto link = dialer->Dial(target, std::make_unique<PostingHandler>(id, mailbox));
    v1::Frame frame;
    frame.set_epoch(epoch.value());
    *frame.mutable_hello() = hello;
    frame.mutable_hello()->set_purpose(purpose);
    frame.mutable_hello()->set_shared_memory(shared_memory);
    frame.mutable_hello()->set_device_link(device_link);
    // A link that is closed already says so in its OnClosed.
    (void)link->Send(std::move(frame));
    return link;
  }
};

}  // namespace tutti::worker
