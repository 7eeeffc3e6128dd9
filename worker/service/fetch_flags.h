// The place where a worker that is started without a checkpoint keeps what it fetches, and whether
// it still waits for the coordinator.
#pragma once

#include "base/status.h"
#include "worker/service/worker.h"

namespace tutti::worker {

// Fills in the folder for a worker without --model. INVALID_ARGUMENT: there is none, or one is
// given that is not needed.
absl::Status ResolveModel(WorkerOptions* worker);

// CANCELLED once SIGINT or SIGTERM has come that nobody has taken yet.
// REQUIRES: both are blocked in all threads
absl::Status KeepOnStarting();

}  // namespace tutti::worker
