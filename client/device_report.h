// Asks this machine's workers, as it were, for its GPUs: `tutti-worker --list-devices`.
//
// A process of its own does it, because only workers load CUDA, and because a driver that hangs or
// dies takes its process with it.
#pragma once

#include "base/status.h"
#include "client/device_deal.h"

namespace tutti::client {

// UNAVAILABLE: it did not answer within kListDevicesPatienceMs, or ended without an answer; says
// what it said. Waits; the child sees our environment, CUDA_VISIBLE_DEVICES with it.
// Thread: any.
absl::StatusOr<MachineDevices> AskForDevices();

}  // namespace tutti::client
