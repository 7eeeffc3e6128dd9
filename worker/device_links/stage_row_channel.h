// How a step's rows get from the device of one stage to those of the next without the hosts'
// memory, behind an interface: device links in a worker, whatever a test wants.
//
// Beside each transfer goes an activation frame over the link, which says what it is: rows of the
// next step that is sent so. Rows of other steps may go over the link itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tutti::worker {

// Thread: the executor's.
class RowPort {
 public:
  virtual ~RowPort() = default;

  // Ends all transfers, done or not: their memory is about to go.
  virtual void End() = 0;

  // Device memory for the rows of a step that is about to be computed. Null: they have to go over
  // the links, because not every next worker can take them or all memory is on its way.
  virtual absl::StatusOr<std::byte*> TakeSlot() = 0;
  // Sends `bytes` of the slot taken last to all next workers; the device is through with them.
  virtual absl::Status Send(int64_t bytes) = 0;

  // A frame has said that `bytes` come, behind those expected before. FAILED_PRECONDITION: this
  // worker has not said that it can take them.
  virtual absl::Status Expect(int64_t bytes) = 0;
  // Waits for the next of those expected. They stay until Release. ABORTED: the epoch is over;
  // DEADLINE_EXCEEDED: they have not come; both name who sends them.  REQUIRES: some are expected
  virtual absl::StatusOr<std::byte*> Await() = 0;
  // The device is through with them.
  virtual void Release() = 0;
};

}  // namespace tutti::worker
