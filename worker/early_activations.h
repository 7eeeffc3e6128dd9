// Activation frames of epochs to come: the previous stage may have got its shard, and begun, before
// this worker's assign_shard came. Bounded, because any frame may claim a newer epoch.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <deque>

#include "base/ids.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"

namespace tutti::worker {

class EarlyActivations {
 public:
  struct Kept {
    v1::Frame frame;
    transport::Payload payload;
  };

  // False: beyond kEarlyActivationBytesMax or kEarlyActivationFramesMax. The frame is dropped then,
  // and its epoch remembered.
  bool Keep(v1::Frame frame, transport::Payload payload);

  // All of them, in the order in which they came; none are left here.
  std::deque<Kept> PopAll();

  // RESOURCE_EXHAUSTED when `epoch` is the newest of which a frame was dropped.
  absl::Status CheckComplete(Epoch epoch) const;

  // Clears all, as if nothing had come.
  void Clear();

 private:
  std::deque<Kept> kept_;
  int64_t bytes_ = 0;  // of kept_, encoded
  Epoch dropped_;      // the newest epoch of which a frame was dropped
};

}  // namespace tutti::worker
