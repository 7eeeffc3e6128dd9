// How ranks of a stage exchange from device to device, without the host's memory in between.
//
// A group of devices is founded for an epoch and left with it. Founding takes an exchange of facts
// between the ranks by other means (worker/device_group.h): every rank describes itself, all ranks
// see all descriptions and come to the same verdict.
//
// Sums are added in the tree of kernels/collective.h, by our own kernel: the group only moves
// values. Operations are queued on the device like operators; whether they ended well is known
// after Settled.
//
// Thread: one thread calls (the executor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

// Between which ranks devices may exchange directly. What crosses a network so is neither encrypted
// nor authenticated (docs/decisions/0022-ranks-exchange-on-their-gpus.md).
enum class DeviceExchangeScope { kOff, kMachine, kNetwork };

class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  // Bytes that a rank tells of itself, 512 at most.
  virtual int64_t description_bytes() const = 0;
  // Writes them. The founder's carry what the others need to find it. Not OK: why this rank cannot
  // exchange so; the description says that it cannot.
  virtual absl::Status Describe(DeviceExchangeScope scope, bool founder,
                                std::span<std::byte> description) = 0;
  // "" when the devices described, rank 0's first, can form a group; else why not, the same text at
  // every rank.   descriptions [ranks, description_bytes()]; any bytes are allowed
  virtual std::string WhyNot(std::span<const std::byte> descriptions) const = 0;

  // Begins to form the group, in the background.  REQUIRES: WhyNot said ""; no group is held.
  // UNAVAILABLE when an earlier attempt has not come to its end.
  virtual absl::Status Form(std::span<const std::byte> descriptions, int ranks, int rank) = 0;
  // Whether the group stands. Errors: why it never will.
  virtual absl::StatusOr<bool> Formed() = 0;
  // Ends what is under way and leaves the group; nothing to do when there is none.
  virtual void Leave() = 0;

  // Takes the device memory that exchanges need. Bytes held.  RESOURCE_EXHAUSTED when short.
  virtual absl::StatusOr<int64_t> Reserve() = 0;

  // x[i] := the sum of all ranks' x[i].   x f32, rows next to each other
  //
  // REQUIRES, here and below: the group stands, and all ranks make the same calls with the same
  // sizes in the same order. Errors: INTERNAL what the library says; DEADLINE_EXCEEDED a call that
  // did not come back in time. After an error the group is of no use any more.
  virtual absl::Status Sum(TensorView x) = 0;
  // Rank r's rows are [begin[r], begin[r + 1]): sends ours, fills in the others'. begin [ranks + 1]
  virtual absl::Status Gather(TensorView x, std::span<const int64_t> begin) = 0;

  // Whether everything queued so far has been done.  Errors: what a device reported meanwhile.
  virtual absl::StatusOr<bool> Settled() = 0;
};

}  // namespace tutti::kernels
