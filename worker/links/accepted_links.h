// The peer links that other workers dial, and the door in front of them. Whoever dials is a
// stranger until its hello says that it is one of those expected in this epoch, whose link it
// becomes; all others are refused.
//
// Thread: the executor's, but for AcceptInto.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_link.h"

namespace tutti::worker {

// From the stage before, or a lower rank of our own stage: expected from the beginning of its
// epoch, and up once the worker's hello was accepted.
class AcceptedLink : public PeerLink {
 public:
  // The answers in welcome to what a hello offers; null functions: to none.
  struct Answers {
    // True: the shared memory is used from now on.
    std::function<bool(const std::string& shared_memory)> to_memory;
    // The answer to the device that a hello describes; "" for none.
    std::function<std::string(const std::string& device_link)> to_device;
  };

  AcceptedLink(v1::LinkPurpose purpose, Epoch epoch, std::string worker_id, Answers answers,
               Events events)
      : PeerLink(purpose, epoch, std::move(worker_id), std::move(events)),
        answers_(std::move(answers)) {}

  // The worker has dialled, and hears welcome.  A link that it dialled before is let go of.
  void Welcome(OwnedLink link, const v1::Hello& hello);
  void Close(const absl::Status& reason);
  // Whether a frame after hello has come over the link: the worker has seen our welcome.
  bool is_used() const { return is_used_; }
  const OwnedLink& link() const { return link_; }

  bool is_up() const override { return static_cast<bool>(link_); }
  // A link that is gone says so in OnClosed.
  void Send(v1::Frame frame, transport::Payload payload) override;

  void OnFrame(LinkId link, v1::Frame frame, transport::Payload payload, Instant now) override;
  void OnClosed(LinkId link, const absl::Status& reason, Instant now) override;

 private:
  const Answers answers_;
  OwnedLink link_;
  bool is_used_ = false;
};

// Posts the links that others dial, for OnAccepted. May be called after the executor is gone.
// Thread: any.
transport::AcceptCallback AcceptInto(std::shared_ptr<WorkerMailbox> mailbox);

class AcceptedLinks : private LinkOwner {
 public:
  explicit AcceptedLinks(LinkContext* context) : context_(context) {}

  // From now on these may be dialled, each by its worker.  REQUIRES: they live until End
  void Begin(Epoch epoch, std::vector<AcceptedLink*> expected);
  // No epoch: closes the links of those that were expected.
  void End(const absl::Status& reason);

  // Beyond kAcceptedLinksKept the oldest link that has said no hello makes way.
  void OnAccepted(LinkAccepted accepted, Instant now);

  // Closes links that say nothing.
  void Tick(Instant now);
  Instant next_wake() const;

 private:
  struct Stranger {
    OwnedLink link;
    std::shared_ptr<transport::ReceiveBudget> budget;
    Instant hello_deadline;
  };

  void OnFrame(LinkId link, v1::Frame frame, transport::Payload payload, Instant now) override;
  void OnClosed(LinkId link, const absl::Status& reason, Instant now) override;
  // The one among those expected that says hello.
  absl::StatusOr<AcceptedLink*> CheckHello(const v1::Frame& frame) const;
  void Refuse(LinkId stranger, const absl::Status& reason);
  void MakeRoom();

  LinkContext* const context_;
  Epoch epoch_;
  std::vector<AcceptedLink*> expected_;
  // By age. Those that say hello after an epoch has ended may belong to the next.
  std::map<LinkId, Stranger> strangers_;
};

}  // namespace tutti::worker
