// A copy of the model that serves: a pipeline, with the scheduler and the step rate that decide its
// steps.
//
// Thread: the engine's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/fleet/membership.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/pipeline/pipeline.h"
#include "coordinator/steps/scheduler.h"
#include "coordinator/steps/step_rate.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

struct Replica {
  // REQUIRES: the objects pointed at outlive the replica. `last_epoch` is the counter that all
  // pipelines share.
  Replica(PipelineId id, const EngineOptions* options, Membership* membership, Epoch* last_epoch,
          const ShardCheck* check, KvDirectory* directory);

  PipelineId id() const { return pipeline.id(); }
  // The scheduler's epoch is open exactly while this is true.
  bool serving() const { return pipeline.state() == Pipeline::State::kServing; }

  // Whether new requests come here, or to a pipeline that takes its place.
  bool open() const { return retiring.empty() || !accepting; }
  // Why new requests find nothing here; "" while it serves and is open.
  std::string WhyNot() const;
  // The same, and of one that serves with fewer workers than the layout says.
  std::string WhyNotWhole() const;
  // It ended: the next epoch's workers are others.
  void StayOpen() {
    retiring.clear();
    accepting = true;
  }

  // Plans steps until enough are under way or nothing is left to compute, and sends them to the
  // workers.  REQUIRES: serving()
  void PlanSteps(Instant now, std::vector<Action>* actions);
  void FillStatus(Instant now, v1::PipelineStatus* status) const;

  Pipeline pipeline;
  Scheduler scheduler;
  StepRate rate;
  std::optional<Instant> ended;  // when it last ceased to serve
  bool reduced = false;          // it is made of fewer workers than the layout says
  Instant slow_asked_at{};       // when it was last asked whether it can do without a slow worker
  std::string numerics;          // the class of its epoch; see Pipeline::NumericsOfLayers
  bool exact = true;             // as Pipeline::IsExact said of that epoch
  // Why it ends when its last stream has: a worker of its is leaving. Empty: it goes on.
  std::string retiring;
  // False for one that retires: nothing can take its place, so requests that were taken are bound
  // to it.
  bool accepting = true;
};

}  // namespace tutti::coordinator
