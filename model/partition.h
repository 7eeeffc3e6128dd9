// The tensors that one shard (a stage's layers, one rank's part of them) reads from the checkpoint,
// and its memory.
//
// Pure arithmetic over the configuration: `tutti plan` and placement promise with it, the loader
// obeys it. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/device_kind.h"
#include "base/dtype.h"
#include "base/status.h"
#include "kernels/gpu_memory.h"
#include "kernels/quantised_bytes.h"
#include "model/model_config.h"
#include "model/range.h"
#include "model/weight_map.h"

namespace tutti::model {

// Leaves of a row-parallel product, and so the most ranks that can share a stage.
inline constexpr int kLeaves = 8;

// Vectors of a shard lie in one buffer and begin at multiples of this many f32 values, a cache
// line.
inline constexpr int64_t kVectorMultiple = 16;

// How a backend's packed weights differ from their elements: rows padded to a multiple of one
// number, columns to one of another (in every leaf of a row-parallel product), norms and biases
// held in another type.
//
// Products that the transformer fuses are padded as one matrix: query, key and value; gate and up.
// A router is held in the vectors' type, so that experts are chosen in f32.
struct PackingRule {
  int64_t row_multiple = 64;
  int64_t column_multiple = 2;
  // The multiple for matrices in f32.
  int64_t wide_row_multiple = 64;
  int64_t wide_column_multiple = 2;
  DType vector_dtype = DType::kF32;
  int64_t vector_multiple = kVectorMultiple;
  // Quantised matrices have tables of their strips beside them (kernels::GpuTableBytes).
  bool strip_tables = false;
};
inline constexpr PackingRule kCpuPacking = {};
// kernels/cuda/layout.h: pieces of 16 rows by 32 columns; f32 with its rows beside each other.
inline constexpr PackingRule kCudaPacking = {.row_multiple = kernels::kGpuTileOut,
                                             .column_multiple = kernels::kGpuChunkK,
                                             .wide_row_multiple = kernels::kGpuPlainOutPad,
                                             .wide_column_multiple = 1,
                                             .strip_tables = true};
inline constexpr PackingRule kUnpacked = {.row_multiple = 1,
                                          .column_multiple = 1,
                                          .wide_row_multiple = 1,
                                          .wide_column_multiple = 1,
                                          .vector_multiple = 1};

inline constexpr const PackingRule& PackingOf(DeviceKind kind) {
  return kind == DeviceKind::kCuda ? kCudaPacking : kCpuPacking;
}

// How the inputs that rank `rank` has of a product of quantised matrices are divided, at the most;
// `role` is that of the last matrix, and `quant` the format of all.
kernels::StripCounts CountProductStrips(const ModelConfig& config, const QuantConfig& quant,
                                        Role role, int ranks, int rank);

// Bytes of the quantised matrices that make one product on rank `rank`: `rows` of each.
int64_t QuantisedProductBytes(const ModelConfig& config, const QuantConfig& quant, Role role,
                              const std::vector<int64_t>& rows, int ranks, int rank,
                              const PackingRule& packing = kCpuPacking);

// Resident weight bytes of one shard.
struct ShardBytes {
  int64_t layers = 0;  // matrices of the layers
  int64_t embedding = 0;
  int64_t head = 0;     // 0 when it is the embedding of the same stage
  int64_t vectors = 0;  // norms and biases
  int64_t total() const { return layers + embedding + head + vectors; }
};

// Whether `ranks` tensor-parallel ranks can share this model: 1, 2, 4 or 8 of them (each owns a
// whole subtree of the 8 leaves), each with at least one query head and column of the MLP, and with
// whole experts where those round rows. Shares
// may be uneven: 14 heads over 4 ranks are 3, 4, 3 and 4; of a vocabulary of less than eight units
// some of eight ranks have none. INVALID_ARGUMENT names the number at fault and the nearest choice
// that the model takes.
absl::Status CheckRanks(const ModelConfig& config, int ranks);
// The same but for what depends on which matrices are codes, which a worker that has no checkpoint
// yet does not know.
absl::Status CheckRankShape(const ModelConfig& config, int ranks);

// REQUIRES for all below: CheckStageShare and CheckRankShape are OK, 0 <= rank < ranks.

ShardBytes ComputeShardBytes(const ModelConfig& config, const StageShare& share, int ranks,
                             int rank, const PackingRule& packing = kCpuPacking);

// The KV heads that a rank holds, in order. With more ranks than KV heads each is held by several
// ranks. A head may be there several times: backends give every head held the same number of
// queries, so where the rank's queries are 4 of one head and 2 of the next, it holds the one twice.
std::vector<int64_t> KvHeadsOfRank(const ModelConfig& config, int ranks, int rank);
// Their number; and on the rank that holds most.
int64_t KvHeadsPerRank(const ModelConfig& config, int ranks, int rank);
int64_t KvHeadsPerRank(const ModelConfig& config, int ranks);

// Bytes of keys and values that one token takes on the rank of the stage that holds most.
// `kv_dtype` absent: the checkpoint's.
int64_t KvBytesPerToken(const ModelConfig& config, const StageShare& share, int ranks,
                        std::optional<DType> kv_dtype = std::nullopt);

// Widths of a rank's part of a layer and of the head.
struct RankWidths {
  int64_t query = 0;         // of its query heads together
  int64_t key_value = 0;     // of its KV heads together
  int64_t intermediate = 0;  // of a dense MLP; 0: no layer has one
  int64_t expert = 0;        // of one expert; 0: no layer has any
  int64_t vocab = 0;
  int64_t mlp() const { return std::max(intermediate, expert); }
};
RankWidths WidthsOfRank(const ModelConfig& config, int ranks, int rank);

// One tensor of a shard, and the part of it that the rank reads.
struct ShardTensor {
  WeightSpec spec;
  Range rows;  // of spec.shape[0]
  // The number of times for which each of its heads is held; empty: once.
  std::vector<int64_t> copies;
  Range cols;  // of spec.shape[1]; [0, 1) for a vector
  // Bytes of the whole tensor, in config.dtype: from the first byte the rank reads to past the
  // last. Contiguous unless the split is over columns, when it spans the bytes between them too.
  Range bytes;
  // The tied head of a stage that also has the embedding: the same matrix, counted once.
  bool shared_with_embedding = false;
  // `rows`, with copies.
  int64_t held_rows = 0;
  // `rows`, of the whole tensor.
  Range stored_rows() const { return {spec.first_row + rows.begin, spec.first_row + rows.end}; }
};

// `part.bytes` in a checkpoint whose elements have `stored_bytes` bytes.
Range StoredBytes(const ModelConfig& config, const ShardTensor& part, int64_t stored_bytes);

// The experts of which a rank holds something: with config.whole_experts its own, all of each; else
// all of them, an equal part of each.
Range ExpertsOfRank(const ModelConfig& config, int ranks, int rank);

// The part that rank `rank` reads of one tensor of ListWeights or WeightOf.
ShardTensor ShareTensor(const ModelConfig& config, WeightSpec spec, int ranks, int rank);

// Everything rank `rank` reads, in the order of ListWeights.
std::vector<ShardTensor> ListShardTensors(const ModelConfig& config, const StageShare& share,
                                          int ranks, int rank);

// Row-parallel products (attention output, MLP down) are sums of kLeaves leaves over ranges of
// `in`, the same for any number of ranks: leaf l covers [begin[l], begin[l + 1]) of the whole
// matrix. Leaves of the attention output end between heads; a leaf may be empty. Rank r of n owns
// leaves [r * kLeaves / n, (r + 1) * kLeaves / n), which cover just the columns that
// ListShardTensors gives it.   [kLeaves + 1] REQUIRES: role is kAttentionOutput, kDown or
// kExpertDown
std::vector<int64_t> LeafBegins(const ModelConfig& config, Role role);

// The leaves that rank `rank` owns, as a weight of its own columns has them: from 0.
std::vector<int64_t> LeafBeginsOfRank(const ModelConfig& config, Role role, int ranks, int rank);

// The token ids of rank `rank`, the rows of its embedding and head.
Range VocabularyOfRank(const ModelConfig& config, int ranks, int rank);

// Rank `rank`'s part of `total` things that come in units of `unit`: contiguous, in rank order,
// sizes differing by at most one unit. The last unit may be short.
Range SplitRange(int64_t total, int64_t unit, int ranks, int rank);

}  // namespace tutti::model
