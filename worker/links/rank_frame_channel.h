// Carries the frames of exchanges (RankExchange in peer.proto), between the ranks of one
// stage. An interface: links and shared memory in a worker, queues between threads in tests.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"

namespace tutti::worker {

// Thread: the executor's.
class RankFrameChannel {
 public:
  struct Received {
    v1::Frame frame;
    // Valid until the next Send or Receive, and as long as its owner is held.
    transport::Payload payload;
  };
  virtual ~RankFrameChannel() = default;

  // Frames of the current epoch, in order. A frame that cannot be sent shows in Receive.
  virtual void Send(int rank, v1::Frame frame, transport::Payload payload) = 0;

  // The next frame from `rank`; waits for it. UNAVAILABLE: the rank is gone; DEADLINE_EXCEEDED: it
  // is silent; both name it. ABORTED: the epoch is over.
  virtual absl::StatusOr<Received> Receive(int rank) = 0;

  // From now on a rank may be silent so much longer than usual.
  virtual void AllowSilence(Duration extra) = 0;

  // Lets something happen, at the latest until `until`. ABORTED: the epoch is over.
  virtual absl::Status Pause(Instant until) = 0;

  // A rank as people know it: "rank 1 (w1)".
  virtual std::string NameOf(int rank) const = 0;
};

}  // namespace tutti::worker
