// The engine's status as metrics: what operators see (cluster.proto), under names of ours and of
// vLLM's.
//
// Pure. Thread: any.
#pragma once

#include <cstdint>

#include "metrics/exposition.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// Counted since the coordinator started, beside what is in the status.
struct EngineTotals {
  uint64_t refused_peers = 0;  // links that were turned away
  uint64_t lost_workers = 0;   // links of workers that had joined and ended
  uint64_t weights_sent_bytes = 0;  // to workers without the checkpoint
};

// Samples are bounded by the workers that are there; labels are their names, which are plain.
void WriteStatus(const v1::GetStatusResponse& status, const EngineTotals& totals,
                 metrics::Exposition* to);
// vLLM's names (version 0.33) for what the status has: an engine for each pipeline. `now_s`:
// seconds since 1970.
void WriteVllmStatus(const v1::GetStatusResponse& status, metrics::Exposition* to);

}  // namespace tutti::coordinator
