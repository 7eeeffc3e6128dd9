#include "model/shard_chunks.h"

#include <utility>

#include "model/chunk_reader.h"

namespace tutti::model {

std::vector<ChunkRange> ShardChunks(const Checkpoint& checkpoint, const ModelConfig& config,
                                    const StageShare& share, int ranks, int rank) {
  std::vector<ChunkRange> chunks;
  for (const ShardTensor& part : ListShardTensors(config, share, ranks, rank)) {
    const TensorInfo* const tensor = checkpoint.Find(part.spec.name);
    if (tensor == nullptr) continue;
    const Range bytes = StoredBytes(config, part, StoredTypeBytes(tensor->dtype));
    if (bytes.end > tensor->bytes) continue;
    chunks.push_back(ChunksOf(
        *tensor,
        {.begin = bytes.begin, .rows = 1, .row_bytes = bytes.size(), .stride = bytes.size()}));
  }
  return JoinChunks(std::move(chunks));
}

}  // namespace tutti::model
