// A copy of the model that serves: a pipeline, with the scheduler and the step rate that decide its
// steps.
//
// Thread: the engine's.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/engine_options.h"
#include "coordinator/fleet/membership.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/pipeline/pipeline.h"
#include "coordinator/steps/finished_answers.h"
#include "coordinator/steps/prompt_lookup.h"
#include "coordinator/steps/scheduler.h"
#include "coordinator/steps/step_rate.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

struct Replica {
  // REQUIRES: the objects pointed at outlive the replica. `last_epoch` is the counter that all
  // pipelines share.
  Replica(PipelineId id, const EngineOptions* options, Membership* membership, Epoch* last_epoch,
          const ShardCheck* check, KvDirectory* directory, FinishedAnswers* answers);

  PipelineId id() const { return pipeline.id(); }
  // The scheduler's epoch is open exactly while this is true.
  bool serving() const { return pipeline.state() == Pipeline::State::kServing; }

  void FillStatus(Instant now, v1::PipelineStatus* status) const;

  Pipeline pipeline;
  PromptLookup lookup{kLookupBytesOfAll};
  Scheduler scheduler;
  StepRate rate;
  std::optional<Instant> ended;  // when it last ceased to serve
  bool reduced = false;          // it is made of fewer workers than the layout says
  std::string numerics;          // the class of its epoch; see Pipeline::NumericsOfLayers
  bool exact = true;             // as Pipeline::IsExact said of that epoch
};

}  // namespace tutti::coordinator
