// One end of a device link in an epoch: from descriptions, which travel in hello and welcome, to a
// link that stands.
//
// The sender describes itself in every hello. The receiver comes to the verdict that both would
// come to; if it is good, it founds a group, answers with its own description, and both join. Until
// then, and if that never happens, rows go over the link.
//
// Thread: the executor's.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/device_link.h"

namespace tutti::worker {

class DeviceLinkEnd {
 public:
  enum class Side { kReceiver, kSender };

  // `own` and `peer`: the workers' ids.
  DeviceLinkEnd(std::unique_ptr<kernels::DeviceLink> link, Side side, std::string own);
  ~DeviceLinkEnd();

  // A new epoch, in which `peer` is at the other end.
  void Begin(std::string peer, kernels::DeviceExchangeScope scope);
  // Leaves the group.
  void End();

  // Sender: the description in hello; "" when this device cannot link.
  const std::string& description() const { return description_; }
  // Receiver: the answer in welcome to a hello's; "" when the two cannot link. A peer that dials
  // again starts again.
  std::string Answer(const std::string& description);
  // Sender: the answer in welcome.
  void HandleAnswer(const std::string& answer);

  // The other's description is still to come.
  bool waits_for_peer() const { return state_ == State::kWaiting; }
  // It is, or the group is to be formed, or being formed.
  bool undecided() const { return state_ != State::kNone && state_ != State::kStands; }
  // The group stands at this end.
  bool stands() const { return state_ == State::kStands; }
  // Begins to form the group, or looks whether it stands; true when it has just come to stand.
  bool Tick(Instant now, Duration patience);

  kernels::DeviceLink* link() { return link_.get(); }
  const std::string& peer() const { return peer_; }

 private:
  enum class State { kNone, kWaiting, kAgreed, kForming, kStands };

  // Rows go over the link in this epoch.
  void GiveUp(const std::string& why);
  // The two descriptions, the receiver's first; "" or why the two cannot link.
  std::string Judge(const std::string& receiver, const std::string& sender);

  const std::unique_ptr<kernels::DeviceLink> link_;
  const Side side_;
  const std::string own_;
  std::string peer_;
  kernels::DeviceExchangeScope scope_ = kernels::DeviceExchangeScope::kOff;
  State state_ = State::kNone;
  std::string description_;  // the sender's own
  std::string both_;         // the receiver's, the sender's
  Instant began_{};
};

}  // namespace tutti::worker
