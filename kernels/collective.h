// Exchange among the ranks of a stage within a step: sums of partial products, and small blocks
// that every rank needs of every other.
//
// All ranks of a stage make the same calls in the same order with the same sizes; a call returns
// when this rank has its result. Sums are added in one binary tree of neighbours, ranks in order,
// whichever rank adds them: with a rank's partial sums being whole subtrees of a product's leaves
// (WeightSource::leaf_begin), the result has the bits of one rank that computes all leaves.
//
// Thread: one thread calls (the executor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

// Counts since the ranks began to work together.
struct CollectiveTraffic {
  int64_t bytes_out = 0;  // headers included
  int64_t frames_out = 0;
  int64_t bytes_in = 0;
  int64_t frames_in = 0;
  double waiting_seconds = 0;  // for frames of other ranks
};

class Collective {
 public:
  virtual ~Collective() = default;

  // Allocates the memory for exchanges of up to `bytes` among `ranks`, and frees that of the call
  // before. Errors: RESOURCE_EXHAUSTED when memory is short
  virtual absl::Status Reserve(int ranks, int64_t bytes) = 0;

  // Names the step that the following exchanges belong to.
  virtual void BeginStep(uint64_t step) = 0;

  // Memory for the next exchange, contents unspecified, aligned to 64 bytes; its own until the next
  // Acquire.  REQUIRES: bytes as reserved at most. Errors as below.
  virtual absl::StatusOr<std::span<std::byte>> Acquire(int64_t bytes) = 0;

  // Adds the f32 values in the acquired memory over all ranks, element by element. The sums are
  // valid until the next Acquire.
  //
  // Errors of both exchanges: UNAVAILABLE or DEADLINE_EXCEEDED naming the rank and worker that is
  // gone or silent; DATA_LOSS for a wrong checksum; FAILED_PRECONDITION for a rank that is at
  // another exchange; ABORTED when the epoch ended meanwhile. After an error the step cannot go on.
  virtual absl::StatusOr<std::span<const float>> Sum() = 0;

  // The acquired memory as blocks: rank r's is bytes [begin[r], begin[r + 1]). Sends ours, fills in
  // the others'.   begin [ranks + 1]
  virtual absl::Status Gather(std::span<const int64_t> begin) = 0;

  // Whether the ranks' devices can exchange without the host's memory in between. The next three
  // are for backends with devices only; the first two are queued there like operators.
  virtual bool on_device() const = 0;
  // x := the sum of the ranks' x, of the device's memory, rows next to each other.
  // REQUIRES: on_device()
  virtual absl::Status SumOnDevice(TensorView x) = 0;
  // Rank r's rows of x are [begin[r], begin[r + 1]): sends ours, fills in the others'.
  // REQUIRES: on_device()
  virtual absl::Status GatherOnDevice(TensorView x, std::span<const int64_t> begin) = 0;
  // Waits until the devices have done the queued exchanges, so that the host may then wait for its
  // own device in any way: behind an exchange that device may wait for ranks that never come. All
  // ranks call it at the same places.
  virtual absl::Status WaitForDevices() = 0;

  virtual CollectiveTraffic traffic() const = 0;
};

}  // namespace tutti::kernels
