// One direction between two workers' devices: memory of one goes to the other, in order, without
// the hosts' memory. The receiving end founds the group of two.
//
// Transfers have a queue of their own on either device: they neither wait for its operators nor
// hold them up. So the host orders both: a host sends once its device has computed the rows, and
// computes with rows that have arrived.
//
// Thread: one thread calls (the executor).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "kernels/device_membership.h"

namespace tutti::kernels {

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // Member 0 receives and founds, member 1 sends.
  virtual DeviceMembership* membership() = 0;

  // Queues one transfer of device memory.  REQUIRES: the group stands, this end's direction, and
  // the same sizes in the same order at the other end; bytes > 0; the memory is left alone until
  // the transfer is done. Errors: as DeviceExchange's; after one the link cannot be used any more.
  virtual absl::Status Send(const std::byte* from, int64_t bytes) = 0;
  virtual absl::Status Receive(std::byte* to, int64_t bytes) = 0;

  // The number of transfers, of those queued since Form, that have been done. Never waits. Errors:
  // those that the device reported meanwhile.
  virtual absl::StatusOr<int64_t> Done() = 0;
};

}  // namespace tutti::kernels
