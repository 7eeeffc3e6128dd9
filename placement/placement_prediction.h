// What a placement promises of speed, from the devices' measured or told speeds
// (placement/step_cost.h).
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/placement.h"

namespace tutti::placement {

struct StagePrediction {
  double seconds = 0;                     // of a step when all sequences decode
  double prefill_seconds = 0;             // of a step of max_batch_tokens rows of one prompt
  double hop_bytes_per_token = 0;         // each rank sends to the next stage; 0: the last
  double collective_bytes_per_token = 0;  // each rank sends to others of its stage
};

struct PlacementPrediction {
  bool known = false;         // whether the speeds of all devices are; bytes are right all the same
  bool link_assumed = false;  // seconds hold links of kNominalLink
  double depth = 0;           // tokens each row attends to
  double rows = 0;            // of a step when all sequences decode
  double step_seconds = 0;    // of one row through all stages: a token of one sequence
  double tokens_per_second = 0;          // when all sequences decode
  double prefill_tokens_per_second = 0;  // of long prompts
  std::vector<StagePrediction> stages;
};

PlacementPrediction Predict(const Placement& placement, const PlacementOptions& options,
                            int64_t context);

// One step through one stage; 0 where the speed is unknown.
double PredictStageSeconds(const StagePlacement& stage, const StepLoad& load,
                           const LinkSpeed& link);

}  // namespace tutti::placement
