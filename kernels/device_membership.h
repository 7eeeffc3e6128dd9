// A device's membership in a group of devices that move values between each other without the
// hosts' memory: the ranks of a stage (device_exchange.h), or both ends of an activation link
// (device_link.h).
//
// Founding a group takes an exchange of facts between its members by other means: every member
// describes itself, all see all descriptions and come to the same verdict.
//
// Thread: one thread calls (the executor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti::kernels {

// The workers between which devices may exchange directly. Bytes that cross a network this way are
// neither encrypted nor authenticated (docs/decisions/0022-ranks-exchange-on-their-gpus.md).
enum class DeviceExchangeScope { kOff, kMachine, kNetwork };

class DeviceMembership {
 public:
  virtual ~DeviceMembership() = default;

  // Bytes that a member tells of itself, 512 at most.
  virtual int64_t description_bytes() const = 0;
  // Writes them. The founder's description carries what the others need to find it. Not OK: the
  // reason why this member cannot exchange; its description then says that it cannot.
  virtual absl::Status Describe(DeviceExchangeScope scope, bool founder,
                                std::span<std::byte> description) = 0;
  // "" when the devices described, the founder's first, can form a group; else why not, the same
  // text at every member. Whether the founder has founded it is not asked here.
  //   descriptions [names.size(), description_bytes()]; any bytes are allowed
  //   names        of the members, for that text
  virtual std::string WhyNot(std::span<const std::byte> descriptions,
                             std::span<const std::string> names) const = 0;

  // Begins to form the group, in the background.  REQUIRES: WhyNot said ""; no group is held.
  // UNAVAILABLE when an earlier attempt has not come to its end; FAILED_PRECONDITION when the
  // founder's description founds nothing.
  virtual absl::Status Form(std::span<const std::byte> descriptions, int members, int member) = 0;
  // Whether the group stands. Errors: the reason why it never will.
  virtual absl::StatusOr<bool> Formed() = 0;
  // Ends operations under way and leaves the group; does nothing when there is none.
  virtual void Leave() = 0;
};

}  // namespace tutti::kernels
