// The part of one stage in a step: all stages compute an ordinary one; a rebuild (peer.proto) is
// computed by those that have lost K/V only, from rows that the stage before them has kept.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

struct StagePart {
  bool takes_rows = false;  // from the stage before
  bool computes = false;
  bool replays = false;    // sends rows that it has kept
  bool passes_on = false;  // rows go to the next stage
};

StagePart PartOf(const v1::StepPlan& plan, int32_t stage, int32_t num_stages);

// INVALID_ARGUMENT for a rebuild of stages that are not there, or that samples or drafts.
absl::Status CheckRebuild(const v1::StepPlan& plan, int32_t num_stages);

}  // namespace tutti::worker
