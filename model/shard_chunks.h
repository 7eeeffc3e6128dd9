// The chunks of a checkpoint's files that a shard is made of.
//
// Thread: pure; any.
#pragma once

#include <cstdint>
#include <vector>

#include "model/checkpoint.h"
#include "model/chunk_digest.h"
#include "model/model_config.h"
#include "model/partition.h"

namespace tutti::model {

// The chunks that rank `rank` reads a byte of, and those between where it reads columns: joined,
// in ascending order. Headers are not among them, but where they share a chunk with a tensor.
// Tensors that the checkpoint lacks, or has too short, are left out: the loader names them.
//
// REQUIRES: CheckStageShare and CheckRanks are OK
std::vector<ChunkRange> ShardChunks(const Checkpoint& checkpoint, const ModelConfig& config,
                                    const StageShare& share, int ranks, int rank);

}  // namespace tutti::model
