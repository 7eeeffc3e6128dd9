// The links between this rank of a stage and those it exchanges with: rank ^ 1, rank ^ 2, rank ^ 4.
// Of two ranks the lower dials the higher, and offers it shared memory. If both see the same folder
// their exchanges go through it: some microseconds instead of a hundred and more through a socket
// and two threads (docs/decisions/0018). The link stays for all else.
//
// A step that needs a frame of another rank waits for it here, on the executor's thread. While it
// waits the executor goes on reading its mailbox and beating; the beat names the worker it waits
// for, so that it is that one's lease which runs out.
//
// Thread: the executor's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/shared_pipe.h"
#include "worker/links/accepted_links.h"
#include "worker/links/dialled_link.h"
#include "worker/links/rank_frame_channel.h"

namespace tutti::worker {

class RankLinks : public RankFrameChannel {
 public:
  // Lets something happen, at the latest until `deadline`. An error ends the wait with it; ABORTED
  // when the epoch is over.
  using Wait = std::function<absl::Status(Instant deadline)>;

  // `memory_folder`: where ranks of this machine meet; empty: nowhere.  REQUIRES: all outlive this
  RankLinks(LinkContext* context, const PeerFinder* peers, const Clock* clock,
            std::string memory_folder, Wait wait);

  // A new epoch. `patience`: how long a rank may be silent that others wait for, above any lease.
  // Returns the links that lower ranks dial; those live until End.  REQUIRES: the shard names as
  // many workers as it has ranks
  std::vector<AcceptedLink*> Begin(Epoch epoch, const v1::AssignShard& shard, Duration patience);
  // Dials the higher ranks. Errors of PeerFinder::Find.
  absl::Status Dial(Instant now);
  void End();

  // Whether all links are up: no step may begin before. True for a stage of one rank.
  bool ready() const;
  // The worker that the step in progress waits for; empty when none does.
  const std::string& waiting_for() const { return waiting_for_; }

  // Errors: a link cannot be made, or broke and the epoch goes on.
  absl::Status Tick(Instant now);
  Instant next_wake() const;

  // Appends the states of links, for the coordinator, that are others than last time.
  void PopReports(std::vector<v1::LinkState>* reports);

  void Send(int rank, v1::Frame frame, transport::Payload payload) override;
  absl::StatusOr<Received> Receive(int rank) override;
  void AllowSilence(Duration extra) override { extra_patience_ = extra; }
  absl::Status Pause(Instant until) override { return wait_(until); }
  std::string NameOf(int rank) const override;

 private:
  struct Peer {
    int rank = 0;
    std::unique_ptr<PeerLink> link;
    DialledLink* dialled = nullptr;  // `link`, to a higher rank
    bool was_up = false;
    std::unique_ptr<transport::SharedPipe> pipe;  // offered, or accepted
    std::deque<Received> inbox;
    absl::Status failure;  // of a Send, for the next Receive
    std::optional<absl::Status> closed;
    Instant give_up = kInstantNever;  // when `closed` becomes an error
    bool reported = false;            // that it closed; of an accepted link
  };

  AcceptedLink* Expect(const std::string& worker_id, Peer* peer);
  void PrepareDial(const std::string& worker_id, Peer* peer);
  // REQUIRES: we exchange with it
  Peer& PeerOf(int rank);
  void SweepMemory() const;
  PeerLink::Events EventsOf(Peer* peer);
  void OfferMemory(Peer* peer);
  static void SettleMemory(Peer* peer);
  bool AcceptMemory(Peer* peer, const std::string& token);
  static bool UsesMemory(const Peer& peer);
  absl::Status SendThroughMemory(Peer* peer, const v1::Frame& frame,
                                 const transport::Payload& payload);
  // The next frame that has come already; none: none has.
  absl::StatusOr<std::optional<Received>> PopReceived(Peer* peer);
  // Lets something happen while `peer` is waited for, until `wake` at the latest.
  absl::Status WaitFor(Peer* peer, Instant wake, Instant deadline);
  void Keep(Peer* peer, v1::Frame frame, transport::Payload payload);
  void Break(Peer* peer, const absl::Status& reason, Instant now);
  absl::Status WhyBroken(const Peer& peer) const;

  LinkContext* const context_;
  const PeerFinder* const peer_finder_;
  const Clock* const clock_;
  const std::string memory_folder_;
  const Wait wait_;

  Epoch epoch_;
  std::deque<Peer> peers_;  // whose links call back
  Duration patience_{};
  Duration extra_patience_{};
  std::string waiting_for_;
};

}  // namespace tutti::worker
