// The places of slow workers, which move: a pipeline with a worker that has been slow for long
// ends, if one can form without it (docs/decisions/0047-slow-workers-move.md).
//
// Thread: the engine's.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/engine_options.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/pipeline/replica.h"

namespace tutti::coordinator {

class SlowPlaces {
 public:
  // REQUIRES: both outlive this
  SlowPlaces(const EngineOptions* options, Fleet* fleet) : options_(options), fleet_(fleet) {}

  // The reason for which the pipeline is to end now; empty: it is not. Its slow worker is marked
  // then: it keeps what it has loaded, and stands by. Asked again within kPaceWindow it says
  // nothing: placement takes its time.
  std::string WhyMove(const Replica& replica, Instant now);

 private:
  const EngineOptions* const options_;
  Fleet* const fleet_;
  std::map<PipelineId, Instant> asked_at_;
};

}  // namespace tutti::coordinator
