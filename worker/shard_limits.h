// Checks an assign_shard frame before anything is sized by it.  Thread: any.
#pragma once

#include "base/status.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

// INVALID_ARGUMENT naming the field and its value. Facts of the model (layer ranges, head counts)
// is checked by the loader, which knows it.
absl::Status ValidateShard(const v1::AssignShard& shard);

// INVALID_ARGUMENT: the worker has none that assign_shard.draft could mean.
absl::Status NoDraftModel();

// Whether two shards hold the same weights, KV room and work space, so that one loaded runner
// serves both.
bool SameContents(const v1::AssignShard& a, const v1::AssignShard& b);

}  // namespace tutti::worker
