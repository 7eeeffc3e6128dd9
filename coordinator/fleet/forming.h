// The idle workers that make the next pipeline, and in which order: a pure function of their hellos
// and of the shards they hold.
//
// The same workers always give the same pipeline. A worker that still holds a stage's shard gets
// that stage again where the device memory allows it, so that forming again loads as little as
// possible (docs/decisions/0004).
#pragma once

#include <vector>

#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/fleet/device_numbers.h"
#include "coordinator/fleet/layout_choice.h"
#include "coordinator/fleet/membership.h"
#include "placement/placement.h"

namespace tutti::coordinator {

// An idle worker, and the device as far as it may be used.
struct Offer {
  Worker* worker = nullptr;
  placement::DeviceSpec device;
};

// All that --max-memory leaves of the idle workers: in the order of `idle`, or by number where the
// device map's mode goes by the order of the devices.
// NOT_FOUND: a device of --max-memory has never joined.
absl::StatusOr<std::vector<Offer>> OffersOf(const EngineOptions& options,
                                            const DeviceNumbers& numbers,
                                            const std::vector<Worker*>& idle);

struct Formation {
  std::vector<Worker*> workers;  // in the order of stages, within them of ranks
  placement::Placement placement;
  bool reduced = false;  // of fewer workers than the layout says
};

// The first offers that are enough; if the model does not fit those, the ones with most memory.
// With a device map, the workers it names. A mode that goes by the order of the devices takes them
// as they are and may leave some out.
// UNAVAILABLE: too few workers. RESOURCE_EXHAUSTED: too little memory; says what would be enough.
// NOT_FOUND, INVALID_ARGUMENT: the map and the workers do not go together.
absl::StatusOr<Formation> ChooseFormation(const EngineOptions& options, const PipelineShape& shape,
                                          const DeviceNumbers& numbers,
                                          const std::vector<Offer>& offers);

// The shapes with fewer stages or ranks that these many workers can make, the one with most workers
// first, of those the one with most ranks. None where stages have ranks of their own, and where a
// device map names the workers.
std::vector<PipelineShape> SmallerShapes(const EngineOptions& options, const PipelineShape& shape,
                                         size_t workers);

}  // namespace tutti::coordinator
