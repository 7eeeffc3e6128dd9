// Exchange among the ranks of a stage from device to device, without the host's memory in between.
//
// A group of devices is founded for an epoch and left with it
// (worker/device_links/device_group.h). Sums are added in the tree of kernels/collective.h, by our
// own kernel: the group only moves values. Operations are queued on the device like operators;
// whether they ended well is known after AllDone.
//
// Thread: one thread calls (the executor).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/device_membership.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  // Rank 0 founds.
  virtual DeviceMembership* membership() = 0;

  // Allocates the device memory that exchanges need; returns the bytes held. Errors:
  // RESOURCE_EXHAUSTED when memory is short
  virtual absl::StatusOr<int64_t> Reserve() = 0;
  // Gives it back.   REQUIRES: no exchange follows before the next Reserve
  virtual void GiveBack() = 0;

  // x[i] := the sum of all ranks' x[i].   x f32, rows next to each other
  //
  // REQUIRES, here and below: the group stands, and all ranks make the same calls with the same
  // sizes in the same order. Errors: INTERNAL, with the library's message; DEADLINE_EXCEEDED when a
  // call did not return in time. After an error the group cannot be used any more.
  virtual absl::Status Sum(TensorView x) = 0;
  // Rank r's rows are [begin[r], begin[r + 1]): sends ours, fills in the others'. begin [ranks + 1]
  virtual absl::Status Gather(TensorView x, std::span<const int64_t> begin) = 0;

  // Whether everything queued so far has been done.  Errors: those that a device reported
  // meanwhile.
  virtual absl::StatusOr<bool> AllDone() = 0;
};

}  // namespace tutti::kernels
