// The numerics classes of this worker: which it offers, and that in which a shard is computed.
//
// Thread: the one that owns the backend.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "proto/peer_messages.h"
#include "worker/speed_probe.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// Fills in the classes that `backend` can compute in, and how fast it is in each: `best` in its
// best; in the others as `measure` says, which is called while the backend computes in that one. It
// computes in its best again afterwards.
void OfferClasses(kernels::Backend* backend, const MeasuredSpeed& best,
                  const std::function<MeasuredSpeed()>& measure, v1::Hello* hello);

// Loads shards by `factory` with the backend in the class that each names, or else in its best.
// FAILED_PRECONDITION: the backend cannot compute in it.  REQUIRES: backend outlives the result;
// it computes for one runner at a time
StageRunnerFactory InClassOfShard(kernels::Backend* backend, StageRunnerFactory factory);

}  // namespace tutti::worker
