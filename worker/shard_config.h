// What an assignment changes of the configuration that the worker read from the checkpoint.
//
// Pure.  Thread: any.
#pragma once

#include "base/status.h"
#include "model/quantise_choice.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

// INVALID_ARGUMENT: codes that cannot be made of this checkpoint.
inline absl::Status ApplyShard(const v1::AssignShard& shard, model::ModelConfig* config) {
  config->whole_experts = shard.whole_experts();
  return Annotate(
      model::ApplyQuantise({.scheme = shard.quantise(), .head = shard.quantise_head()}, config),
      "assign_shard.quantise");
}

}  // namespace tutti::worker
