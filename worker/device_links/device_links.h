// The device links of a worker in an epoch: from the worker that feeds it, and to those that it
// feeds. The StageRowChannel over kernels/device_link.h.
//
// Blame: a transfer waits for no host. Rows are sent once they are computed and announced once they
// are sent, so rows that were announced and do not come within kTransferPatience are a matter of
// the two devices and the way between them. A worker that has seen that passes its rows through the
// hosts from then on.
//
// Thread: the executor's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "worker/device_links/device_link_end.h"
#include "worker/device_links/stage_row_channel.h"
#include "worker/limits.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

class DeviceLinks : public StageRowChannel {
 public:
  struct Options {
    // A further end of a link from, or to, this worker's device; null function: none.
    std::function<std::unique_ptr<kernels::DeviceLink>()> new_link;
    kernels::DeviceExchangeScope scope = kernels::DeviceExchangeScope::kMachine;
    Duration form_patience = kFormPatience;
    Duration transfer_patience = kTransferPatience;
    Duration grace = kBrokenLinkGrace;
  };
  // Lets something happen, at the latest until `deadline`. ABORTED when the epoch is over.
  using Wait = std::function<absl::Status(Instant deadline)>;

  // REQUIRES: the clock, and the devices of new_link, outlive this
  DeviceLinks(Options options, std::string worker_id, const Clock* clock, Wait wait);
  ~DeviceLinks() override;

  // A new epoch. `previous`: the worker that feeds this one, or ""; `memory`: the shard's slots.
  void Begin(const std::string& previous, const std::vector<std::string>& next,
             StageRunner::LinkMemory memory);
  void End() override;

  // Hellos to next worker i, the answer to the previous worker's, next worker i's answer, and its
  // word that rows may come.
  std::string DescriptionFor(size_t next) const;
  std::string AnswerToPrevious(const std::string& description);
  void HandleAnswer(size_t next, const std::string& answer);
  void HandleUp(size_t next);

  // Forms groups that can be formed, one at a time. True: the previous worker is to be told that
  // rows may come. To be called when no ranks' devices are looking for each other.
  bool Tick(Instant now);
  Instant next_wake(Instant now) const;

  absl::StatusOr<std::byte*> AcquireSlot() override;
  absl::Status Send(int64_t bytes) override;
  absl::Status Expect(int64_t bytes) override;
  absl::StatusOr<std::byte*> Await() override;
  void Release() override;

 private:
  struct Next {
    std::unique_ptr<DeviceLinkEnd> end;
    bool up = false;  // at the other end
  };

  std::unique_ptr<DeviceLinkEnd> NewEnd(DeviceLinkEnd::Side side);
  // The end whose turn it is to be formed; null when all are decided. Along a chain of stages the
  // receiving end comes first, so that no circle of workers waits; two groups that form at once
  // could wait for each other inside the driver.
  DeviceLinkEnd* FirstUndecided() const;
  // Queues receptions while there is memory for them.
  absl::Status Receive();
  // The error that a failed transfer is for the epoch, once the coordinator had time to end it.
  absl::Status Blame(absl::Status status, const DeviceLinkEnd& end);

  const Options options_;
  const std::string worker_id_;
  const Clock* const clock_;
  const Wait wait_;

  // Ends are kept from epoch to epoch: one that waits for a peer that is gone may do so for ever.
  std::unique_ptr<DeviceLinkEnd> previous_;
  std::vector<Next> next_;
  // The state of the epoch:
  bool has_previous_ = false;
  size_t next_count_ = 0;
  StageRunner::LinkMemory memory_;
  int64_t sent_ = 0;
  std::deque<int64_t> expected_;  // bytes of transfers that wait for memory
  int64_t receiving_ = 0;         // transfers queued
  int64_t released_ = 0;

  bool distrusted_ = false;  // a transfer failed while both hosts were well
};

}  // namespace tutti::worker
