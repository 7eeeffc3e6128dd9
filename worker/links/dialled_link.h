// A link to a peer of this epoch that this worker dials: the next stage, or a higher rank of its
// own stage. Found by its worker id (peer_finder.h), dialled until it answers with welcome as the
// worker of that id; frames sent before wait in order.
//
// Thread: the executor's.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "transport/link.h"
#include "worker/links/backoff.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_finder.h"

namespace tutti::worker {

class DialledLink {
 public:
  // Exchanges of ranks (LINK_PURPOSE_COLLECTIVE) go both ways; to the dialer of an activation link
  // comes, beside welcome, nothing but device_link_up.  REQUIRES: both outlive this.
  DialledLink(LinkContext* context, const PeerFinder* peers, v1::LinkPurpose purpose);

  // Every hello offers it (Hello.shared_memory).
  void Offer(std::string shared_memory) { shared_memory_ = std::move(shared_memory); }
  void OfferDevice(std::string description) { device_link_ = std::move(description); }
  // Once up: whether the peer accepted it.
  bool shares_memory() const { return shares_memory_; }

  // From now on frames go to `worker_id` in `epoch`. Errors of PeerFinder::Find.
  absl::Status Begin(Epoch epoch, const std::string& worker_id, Instant now);

  // Dials when it is time to.  Errors: the epoch cannot go on without this link, and has waited
  // long enough for the coordinator to see why.
  absl::Status Tick(Instant now);
  Instant next_wake() const;

  bool Is(LinkId id) const { return link_ != nullptr && id == id_; }
  bool is_up() const { return link_ != nullptr && welcomed_; }
  // True: the frame is for the caller.  REQUIRES: Is(its link)
  bool HandleFrame(const v1::Frame& frame, Instant now);
  void OnClosed(const absl::Status& reason, Instant now);

  void Send(v1::Frame frame, transport::Payload payload);

  // The state of the link, for the coordinator, when it is another than last time.
  std::optional<v1::LinkState> PopReport();

 private:
  struct Waiting {
    v1::Frame frame;
    transport::Payload payload;
  };

  void Dial(Instant now);
  void Report(const absl::Status& state);
  void SendNow(v1::Frame frame, transport::Payload payload);
  std::string Name() const;

  LinkContext* const context_;
  const PeerFinder* const peers_;
  const v1::LinkPurpose purpose_;
  Backoff backoff_;

  Epoch epoch_;
  std::string worker_id_;
  std::optional<PeerFinder::Found> found_;  // none: it is not known where
  std::unique_ptr<transport::Link> link_;
  LinkId id_;
  bool welcomed_ = false;
  std::string shared_memory_;
  bool shares_memory_ = false;
  std::string device_link_;  // Hello.device_link
  // Bounded by the steps the coordinator keeps in flight, of which each stage runs none without a
  // plan.
  std::deque<Waiting> waiting_;
  Instant next_dial_ = kInstantNever;
  std::optional<absl::Status> trouble_;  // why there is no working link
  Instant give_up_ = kInstantNever;      // when trouble becomes an error
  v1::LinkState reported_;
  bool report_due_ = false;
};

}  // namespace tutti::worker
