// The activation link to the next stage of the current epoch. A new epoch is a new link.
//
// What is sent before the next stage said welcome (it may still be loading, or not have heard of
// the epoch) waits here in order. After welcome a link that closes cannot be repaired, because
// nobody knows what arrived: the epoch is broken.
//
// Thread: the executor's.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "worker/backoff.h"
#include "worker/link_events.h"
#include "worker/peer_table.h"

namespace tutti {

class NextStageLink {
 public:
  // REQUIRES: both outlive this.
  NextStageLink(LinkContext* context, const PeerTable* peers);

  // From now on frames go to `worker_id` in `epoch`; empty: there is no next stage.
  // NOT_FOUND when the operator's table does not name it.
  absl::Status Begin(Epoch epoch, const std::string& worker_id, Instant now);
  // Forgets the link and what waits.
  void End();

  // Dials when it is time to.  Errors: the epoch cannot go on without this link, and has waited
  // long enough for the coordinator to see why.
  absl::Status Tick(Instant now);
  Instant next_wake() const;

  bool Is(LinkId id) const { return link_ != nullptr && id == id_; }
  // REQUIRES: Is(its link)
  void OnFrame(const v1::Frame& frame, Instant now);
  void OnClosed(const absl::Status& reason, Instant now);

  void Send(v1::Frame frame, Payload payload);

 private:
  struct Waiting {
    v1::Frame frame;
    Payload payload;
  };

  void Dial(Instant now);
  void SendNow(v1::Frame frame, Payload payload);

  LinkContext* const context_;
  const PeerTable* const peers_;
  Backoff backoff_;

  Epoch epoch_;
  std::string worker_id_;  // empty: there is no next stage
  std::string address_;
  std::unique_ptr<Link> link_;
  LinkId id_;
  bool welcomed_ = false;
  // Bounded by the steps the coordinator keeps in flight, of which each stage runs none without a
  // plan.
  std::deque<Waiting> waiting_;
  Instant next_dial_ = kInstantNever;
  std::optional<absl::Status> trouble_;  // why there is no working link
  Instant give_up_ = kInstantNever;      // when trouble becomes an error
};

}  // namespace tutti
