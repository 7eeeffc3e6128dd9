// Which idle workers make the next pipeline, and in which order: pure over what workers have said.
//
// The same workers always give the same pipeline. A worker that still holds a stage's shard gets
// that stage again where the device memory allows it, so that forming again loads as little as
// possible (docs/decisions/0004).
#pragma once

#include <vector>

#include "base/status.h"
#include "coordinator/engine.h"
#include "coordinator/membership.h"
#include "coordinator/placement.h"

namespace tutti {

// What the engine's options say about placement.
PlacementOptions PlacementOptionsOf(const EngineOptions& options);
// The options' limit, or the model's context.
int32_t MaxModelLen(const EngineOptions& options);

// Ranks of a stage, and workers of a pipeline.  REQUIRES: 0 <= stage < num_stages
int32_t RanksOf(const EngineOptions& options, int32_t stage);
int32_t WorkersOfPipeline(const EngineOptions& options);

struct Formation {
  std::vector<Worker*> workers;  // in the order of stages, within them of ranks
  PlacementPlan placement;
};

// `idle` in natural order of ids. The first of them that are enough; if the model does not fit
// those, the ones with most memory. With a device map, the workers it names.
// UNAVAILABLE: too few workers. RESOURCE_EXHAUSTED: too little memory; says what would be enough.
absl::StatusOr<Formation> ChooseFormation(const EngineOptions& options,
                                          const std::vector<Worker*>& idle);

}  // namespace tutti
