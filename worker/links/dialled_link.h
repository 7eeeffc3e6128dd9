// A peer link that this worker dials: to the next stage, or a higher rank of its own stage. Found
// by its worker id (peer_finder.h), dialled until it answers with welcome as the worker of that id;
// frames sent before wait in order.
//
// Thread: the executor's.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "transport/link.h"
#include "worker/links/backoff.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_finder.h"
#include "worker/links/peer_link.h"

namespace tutti::worker {

class DialledLink : public PeerLink {
 public:
  // REQUIRES: `context` and `peers` outlive this
  DialledLink(LinkContext* context, const PeerFinder* peers, v1::LinkPurpose purpose, Epoch epoch,
              std::string worker_id, Events events);

  // Every hello offers it (Hello.shared_memory).
  void Offer(std::string shared_memory) { shared_memory_ = std::move(shared_memory); }
  void OfferDevice(std::string description) { device_link_ = std::move(description); }

  // Dials. Errors of PeerFinder::Find.
  absl::Status Begin(Instant now);

  bool is_up() const override { return link_ && welcomed_; }
  void Send(v1::Frame frame, transport::Payload payload) override;
  // Dials when it is time to.
  absl::Status Tick(Instant now) override;
  Instant next_wake() const override;
  std::optional<v1::LinkState> PopReport() override;

  void OnFrame(LinkId link, v1::Frame frame, transport::Payload payload, Instant now) override;
  void OnClosed(LinkId link, const absl::Status& reason, Instant now) override;

 private:
  struct Waiting {
    v1::Frame frame;
    transport::Payload payload;
  };

  void Dial();
  void HandleWelcome(const v1::Welcome& welcome);
  void Retry(const absl::Status& reason, Instant now);
  void Report(const absl::Status& state);
  void SendNow(v1::Frame frame, transport::Payload payload);
  std::string Name() const;

  LinkContext* const context_;
  const PeerFinder* const peers_;
  Backoff backoff_;

  std::optional<PeerFinder::Found> found_;  // none: it is not known where
  OwnedLink link_;
  bool welcomed_ = false;
  std::string shared_memory_;  // Hello.shared_memory
  std::string device_link_;    // Hello.device_link
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
