// Carries the rows of a step's activation, from the device of one stage to the devices of the
// next, without the hosts' memory. An interface: device links in a worker, a script in a test.
//
// Beside each transfer an activation frame goes over the activation link; it announces the rows of
// the next step that is sent this way. Rows of other steps may go over the link itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tutti::worker {

// Thread: the executor's.
class StageRowChannel {
 public:
  virtual ~StageRowChannel() = default;

  // Ends all transfers, done or not: their memory is about to go.
  virtual void End() = 0;

  // Device memory for the rows of a step that is about to be computed. Null: they have to go over
  // the links, because not every next worker can take them or all memory is on its way.
  virtual absl::StatusOr<std::byte*> AcquireSlot() = 0;
  // Sends `bytes` of the slot acquired last to all next workers; the device is through with them.
  virtual absl::Status Send(int64_t bytes) = 0;

  // A frame has said that `bytes` come, behind those expected before. FAILED_PRECONDITION: this
  // worker has not said that it can take them.
  virtual absl::Status Expect(int64_t bytes) = 0;
  // Waits for the next of those expected. They stay until Release. ABORTED: the epoch is over;
  // DEADLINE_EXCEEDED: they have not come; both name the sender.  REQUIRES: some are expected
  virtual absl::StatusOr<std::byte*> Await() = 0;
  // The device is through with them.
  virtual void Release() = 0;
};

}  // namespace tutti::worker
