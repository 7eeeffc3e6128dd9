#include "model/shard_chunks.h"

#include <utility>

#include "model/chunk_reader.h"
#include "model/quantise_choice.h"
#include "model/quantised_tensors.h"

namespace tutti::model {

namespace {

void AddQuantised(const Checkpoint& checkpoint, const QuantConfig& format, const ShardTensor& part,
                  std::vector<ChunkRange>* chunks) {
  const auto find = [&](const std::string& name) { return checkpoint.Find(name); };
  const std::string prefix = QuantPrefix(part.spec.name);
  if (!IsQuantised(find, prefix)) return;
  const auto matrix =
      FindQuantisedMatrix(find, prefix, format, part.spec.tensor_rows, part.spec.shape[1]);
  if (!matrix.ok()) return;
  for (const StoredPart& stored : PartsOf(*matrix, format, part.stored_rows(), part.cols)) {
    if (stored.slice().bytes() > 0) chunks->push_back(ChunksOf(*stored.tensor, stored.slice()));
  }
}

}  // namespace

std::vector<ChunkRange> ShardChunks(const Checkpoint& checkpoint, const ModelConfig& config,
                                    const StageShare& share, int ranks, int rank) {
  std::vector<ChunkRange> chunks;
  for (const ShardTensor& part : ListShardTensors(config, share, ranks, rank)) {
    const QuantConfig* const format = config.quant.Find(part.spec.role, part.spec.layer);
    if (format != nullptr && !config.quantise.has_value()) {
      AddQuantised(checkpoint, *format, part, &chunks);
      continue;
    }
    const TensorInfo* const tensor = checkpoint.Find(part.spec.name);
    if (tensor == nullptr) continue;
    const int64_t element = StoredTypeBytes(tensor->dtype);
    Range bytes = StoredBytes(config, part, element);
    if (format != nullptr) {
      const Range cols = ColsOfCodes(config, part);
      bytes.begin -= (part.cols.begin - cols.begin) * element;
      bytes.end += (cols.end - part.cols.end) * element;
    }
    if (bytes.end > tensor->bytes) continue;
    chunks.push_back(ChunksOf(
        *tensor,
        {.begin = bytes.begin, .rows = 1, .row_bytes = bytes.size(), .stride = bytes.size()}));
  }
  return JoinChunks(std::move(chunks));
}

}  // namespace tutti::model
