// The ranks of a stage as threads of this process, which exchange through one memory.
#pragma once

#include <functional>
#include <memory>

#include "kernels/collective.h"

namespace tutti::worker {

// Calls body(rank, its collective) for every rank, each on a thread of its own, and returns when
// all are done. Exchanges take up to `bytes` for all ranks together. Only Acquire and Gather work.
void RunRanks(int ranks, int64_t bytes,
              const std::function<void(int rank, kernels::Collective* collective)>& body);

}  // namespace tutti::worker
