// The memory of a shard on its device besides weights: KV cache, and the work space of its largest
// step. Placement promises with it, the worker's transformer allocates by it.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/device_kind.h"
#include "base/step_bounds.h"
#include "kernels/gpu_memory.h"
#include "model/model_config.h"
#include "model/partition.h"

namespace tutti::model {

// Rows of a step whose logits are computed at a time; further ones take another turn. The rest of
// the step's memory does not depend on the vocabulary, so this bounds the head's share: 64 rows of
// 151,936 f32 logits are 39 MB. Each turn reads the head once more, 1.2 GB of an 8B model.
inline constexpr int64_t kWorkSpaceLogitRows = 64;

// Buffers that a rank sends from and adds into: one for its own partial sums, one more for each
// exchange they go through, and one that may still be on its way from the exchange before.
inline constexpr int64_t CollectiveBuffers(int ranks) {
  int64_t buffers = 2;
  for (; ranks > 1; ranks /= 2) ++buffers;
  return buffers;
}

// The most that ranks tell each other about one entry of the vocabulary: a candidate of 12 bytes to
// draw from and one to report. Beside it, the headers of such lists on eight ranks.
inline constexpr int64_t kCollectiveBytesPerCandidate = 24;
inline constexpr int64_t kCollectiveExtraCandidates = 1024;

// The rows that the experts of the largest step make together: a row for each expert that a token
// takes.
inline int64_t ExpertRows(const ModelConfig& config, int64_t max_batch_tokens) {
  return max_batch_tokens * config.experts_per_token;
}

// The ranks' descriptions of their devices, exchanged before the first step: eight of up to
// 512 bytes.
inline constexpr int64_t kCollectiveBytesMin = 4096;

// Bytes of one such buffer: partial sums of the largest step, or on the last stage candidates for
// the whole vocabulary, which a very flat distribution may need.
inline int64_t CollectiveBufferBytes(const ModelConfig& config, bool has_head,
                                     int64_t max_batch_tokens) {
  const int64_t rows = std::max(max_batch_tokens, ExpertRows(config, max_batch_tokens));
  const int64_t sums = rows * config.hidden_size * static_cast<int64_t>(sizeof(float));
  const int64_t candidates =
      (config.vocab_size + kCollectiveExtraCandidates) * kCollectiveBytesPerCandidate;
  return std::max({sums, has_head ? candidates : 0, kCollectiveBytesMin});
}

// All rows are f32. Living at once in a layer: residual, its norm, what the layer adds (over ranks,
// in the buffers above); the widest of query-key-value and gate-up; the widest of what goes into
// the attention's output and into MLP down. A layer of experts has its router's logits, the rows of
// one expert and the results of all (over ranks, in the buffers above). The last stage has logits,
// their input, and one row of adjusted logits.
//
// A GPU has what the layer adds, and the results of all experts, over ranks too: the buffers above
// are the host's then, and not counted.  REQUIRES: CheckRanks is OK, 0 <= rank < ranks
inline int64_t WorkSpaceBytes(const ModelConfig& config, bool has_head, int64_t max_batch_tokens,
                              int64_t max_sequences, int ranks = 1, int rank = 0,
                              DeviceKind kind = DeviceKind::kCpu) {
  const RankWidths own = WidthsOfRank(config, ranks, rank);
  const int64_t wide = std::max(own.query + 2 * own.key_value, 2 * own.mlp());
  const int64_t narrow = std::max(own.query, own.mlp());
  int64_t floats = max_batch_tokens * (2 * config.hidden_size + wide + narrow);
  const bool own_products = ranks == 1 || kind == DeviceKind::kCuda;
  if (own_products) floats += max_batch_tokens * config.hidden_size;
  if (config.has_experts()) {
    floats += max_batch_tokens * (config.num_experts + config.hidden_size);
    if (own_products) floats += ExpertRows(config, max_batch_tokens) * config.hidden_size;
  }
  if (has_head) {
    const int64_t rows = std::min({kWorkSpaceLogitRows, max_sequences, max_batch_tokens});
    floats += rows * (config.hidden_size + own.vocab) + own.vocab;
  }
  int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  if (!own_products) {
    bytes += CollectiveBuffers(ranks) * CollectiveBufferBytes(config, has_head, max_batch_tokens);
  }
  return bytes;
}

// The CPU backends may pad the values of a head to a whole number of vector registers; keys are not
// padded. No published model has heads that this would touch.
inline constexpr int64_t kValueMultiple = 16;

// Keys and values of one token in one layer, the heads of one rank, as they lie in the cache.
// REQUIRES: CheckDeviceKind is OK
inline int64_t ResidentKvBytesPerToken(const ModelConfig& config, int ranks = 1,
                                       DeviceKind kind = DeviceKind::kCpu, int rank = 0) {
  const int64_t padded = (config.head_dim + kValueMultiple - 1) / kValueMultiple * kValueMultiple;
  int64_t key_and_value = config.head_dim + padded;
  if (kind == DeviceKind::kCuda) {
    key_and_value = 2 * kernels::GpuPaddedHeadDim(config.head_dim, config.dtype == DType::kF32);
  }
  return KvHeadsPerRank(config, ranks, rank) * key_and_value * DTypeBytes(config.dtype);
}

// The sizes of a pipeline's largest step.
struct StepSizes {
  int64_t max_batch_tokens = 0;
  int64_t max_sequences = 0;
  int64_t max_model_len = 0;
  int64_t block_size = 16;
};

// REQUIRES for all below: CheckRanks is OK, 0 <= rank < ranks. Of `share` only its ends count.

// The largest sizes that a rank's operators may be called with. The KV cache has no blocks yet.
StepBounds StepBoundsOf(const ModelConfig& config, const StageShare& share, int ranks, int rank,
                        const StepSizes& sizes);

// All memory of a rank beside weights and KV cache: its work space, and on a GPU the operators'
// memory beside their operands.
int64_t ActivationBytes(const ModelConfig& config, const StageShare& share, int ranks, int rank,
                        const StepSizes& sizes, DeviceKind kind);

// UNIMPLEMENTED, with the size in question, when no backend of this kind runs the model.
absl::Status CheckDeviceKind(const ModelConfig& config, DeviceKind kind);

}  // namespace tutti::model
