// Makes the devices of a stage's ranks exchange directly, where they can.
//
// Once the links of an epoch are up, the ranks exchange descriptions of their devices, come to the
// same verdict, form the group and tell each other whether they did: so either all of them use it
// or none. When they cannot, their exchanges go through the host's memory and the links as before;
// that is slower and gives the same bits.
//
// Thread: the executor's.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/device_exchange.h"
#include "worker/limits.h"
#include "worker/links/link_collective.h"
#include "worker/links/rank_frame_channel.h"

namespace tutti::worker {

class DeviceGroup {
 public:
  struct Options {
    // Null: a backend whose ranks exchange through the host. The same for all ranks of a stage.
    kernels::DeviceExchange* devices = nullptr;
    kernels::DeviceExchangeScope scope = kernels::DeviceExchangeScope::kMachine;
    Duration form_patience = kFormPatience;
    Duration exchange_patience = kDevicePatience;
  };

  // REQUIRES: the clock and options.devices outlive this
  DeviceGroup(Options options, const Clock* clock) : options_(options), clock_(clock) {}

  // Called after LinkCollective::BeginEpoch with the same channel, when the links are up. Calls
  // `progress` while it waits. Errors are the links': the epoch cannot go on; ABORTED when it is
  // over. Otherwise collective->on_device() gives the outcome, and the log the reason.
  absl::Status Form(LinkCollective* collective, RankFrameChannel* channel, int ranks, int rank,
                    const std::function<void()>& progress);

 private:
  absl::StatusOr<std::string> TryToForm(LinkCollective* collective, RankFrameChannel* channel,
                                        int ranks, int rank, const std::function<void()>& progress);
  absl::Status WaitUntilFormed(RankFrameChannel* channel, const std::function<void()>& progress);
  absl::StatusOr<std::string> WhoFailed(LinkCollective* collective, RankFrameChannel* channel,
                                        int ranks, int rank, bool formed);

  const Options options_;
  const Clock* const clock_;
};

}  // namespace tutti::worker
