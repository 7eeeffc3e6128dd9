#include "model/partition.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/quantised_bytes.h"
#include "model/layer_kinds.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool IsExpert(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertDown;
}

bool IsKeyOrValue(Role role) {
  return role == Role::kKey || role == Role::kValue || role == Role::kKeyBias ||
         role == Role::kValueBias;
}

// The rows of `spec` that a rank holds, when split over rows: whole heads, whole vocabulary units,
// or elements.
Range RowsOf(const ModelConfig& config, const WeightSpec& spec, int ranks, int rank) {
  const int64_t rows = spec.shape[0];
  switch (spec.role) {
    case Role::kEmbedding:
    case Role::kHead:
      return VocabularyOfRank(config, ranks, rank);
    case Role::kQuery:
    case Role::kQueryBias:
      return SplitRange(rows, config.head_dim, ranks, rank);
    case Role::kKey:
    case Role::kValue:
    case Role::kKeyBias:
    case Role::kValueBias: {
      const std::vector<int64_t> heads = KvHeadsOfRank(config, ranks, rank);
      return {heads.front() * config.head_dim, (heads.back() + 1) * config.head_dim};
    }
    default:
      return SplitRange(rows, 1, ranks, rank);
  }
}

// The columns of `spec` that a rank holds, when split over columns: whole leaves.
Range ColumnsOf(const ModelConfig& config, const WeightSpec& spec, int ranks, int rank) {
  const std::vector<int64_t> begin = LeafBegins(config, spec.role);
  return {begin[rank * kLeaves / ranks], begin[(rank + 1) * kLeaves / ranks]};
}

// Rows of the products a shard packs, filled from its tensors: fused products are one matrix.
class PackedSizes {
 public:
  PackedSizes(const ModelConfig& config, int ranks, int rank, const PackingRule& packing)
      : config_(config), ranks_(ranks), rank_(rank), packing_(packing) {}

  void Add(const ShardTensor& tensor) {
    const int64_t rows = tensor.held_rows;
    const std::vector<int64_t> whole = {0, tensor.cols.size()};
    switch (tensor.spec.role) {
      case Role::kEmbedding:
        bytes_.embedding += Matrix(rows, whole, config_.dtype);
        break;
      case Role::kHead:
        if (!tensor.shared_with_embedding) bytes_.head += Product(tensor, whole);
        break;
      case Role::kQuery:
      case Role::kKey:
      case Role::kGate:
      case Role::kExpertGate:
        fused_rows_.push_back(rows);
        break;
      case Role::kValue:
      case Role::kUp:
      case Role::kExpertUp:
        bytes_.layers += Product(tensor, whole);
        break;
      case Role::kAttentionOutput:
      case Role::kDown:
      case Role::kExpertDown:
        bytes_.layers +=
            Product(tensor, LeafBeginsOfRank(config_, tensor.spec.role, ranks_, rank_));
        break;
      case Role::kRouter:
        bytes_.layers += Matrix(rows, whole, packing_.vector_dtype);
        break;
      case Role::kQueryBias:
      case Role::kKeyBias:
      case Role::kGateBias:
        fused_values_ += rows;
        break;
      case Role::kValueBias:
      case Role::kUpBias:
        bytes_.vectors += Vector(fused_values_ + rows);
        fused_values_ = 0;
        break;
      default:
        bytes_.vectors += Vector(rows);
    }
  }

  const ShardBytes& bytes() const {
    CHECK(fused_rows_.empty() && fused_values_ == 0)
        << "a family's table ends inside a fused product";
    return bytes_;
  }

 private:
  // The last matrix of a product, with those before it.
  int64_t Product(const ShardTensor& last, const std::vector<int64_t>& leaf_begin) {
    std::vector<int64_t> rows = std::exchange(fused_rows_, {});
    rows.push_back(last.held_rows);
    if (const auto* format = config_.quant.Find(last.spec.role, last.spec.layer)) {
      return QuantisedProductBytes(config_, *format, last.spec.role, rows, ranks_, rank_, packing_);
    }
    return Matrix(std::accumulate(rows.begin(), rows.end(), int64_t{0}), leaf_begin, config_.dtype);
  }

  int64_t Matrix(int64_t rows, const std::vector<int64_t>& leaf_begin, DType dtype) const {
    const bool wide = dtype == DType::kF32;
    const int64_t multiple = wide ? packing_.wide_column_multiple : packing_.column_multiple;
    int64_t cols = 0;
    for (size_t leaf = 0; leaf + 1 < leaf_begin.size(); ++leaf) {
      cols += RoundUp(leaf_begin[leaf + 1] - leaf_begin[leaf], multiple);
    }
    return RoundUp(rows, wide ? packing_.wide_row_multiple : packing_.row_multiple) * cols *
           DTypeBytes(dtype);
  }

  int64_t Vector(int64_t values) const {
    return RoundUp(values, packing_.vector_multiple) * DTypeBytes(packing_.vector_dtype);
  }

  const ModelConfig& config_;
  const int ranks_;
  const int rank_;
  const PackingRule packing_;
  std::vector<int64_t> fused_rows_;  // of a product
  int64_t fused_values_ = 0;         // of its biases
  ShardBytes bytes_;
};

// Why no model of this shape can be split over so many ranks; empty when it can.
std::string ShapeFault(const ModelConfig& config, int ranks) {
  if (ranks < 1 || ranks > kLeaves || kLeaves % ranks != 0) {
    return absl::StrCat("must be 1, 2, 4 or ", kLeaves);
  }
  const std::pair<const char*, int64_t> shared[] = {
      {"num_attention_heads", config.num_heads},
      {"intermediate_size", config.has_dense_mlp() ? config.intermediate_size : ranks},
      {config.whole_experts ? "num_experts" : "moe_intermediate_size",
       !config.has_experts()  ? ranks
       : config.whole_experts ? config.num_experts
                              : config.expert_intermediate_size}};
  for (const auto& [name, value] : shared) {
    if (ranks > value) return absl::StrCat("is more than ", name, " ", value);
  }
  return "";
}

// Why this model cannot; empty when it can.
std::string RankFault(const ModelConfig& config, int ranks) {
  // The integers of a row are by its largest element, which ranks would ask each other for expert
  // by expert.
  const auto rounds = [&](int64_t layer) {
    return config.has_experts(layer) && config.rounds_rows(Role::kExpertDown, layer);
  };
  const std::vector<int64_t> kinds = KindsOfLayers(config);
  if (ranks > 1 && !config.whole_experts && std::any_of(kinds.begin(), kinds.end(), rounds)) {
    return "would cut rows of experts whose activations are int8, unless ranks have whole experts "
           "(--expert-split expert)";
  }
  return ShapeFault(config, ranks);
}

using Fault = std::string (*)(const ModelConfig& config, int ranks);

absl::Status CheckBy(Fault fault_of, const ModelConfig& config, int ranks) {
  const std::string fault = fault_of(config, ranks);
  if (fault.empty()) return absl::OkStatus();
  // One rank always serves, so there is a nearest one.
  int nearest = kLeaves;
  for (int other = kLeaves; other >= 1; other /= 2) {
    const bool nearer = std::abs(int64_t{other} - ranks) < std::abs(int64_t{nearest} - ranks);
    if (fault_of(config, other).empty() && (nearer || !fault_of(config, nearest).empty())) {
      nearest = other;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor-parallel size ", ranks, " ", fault,
                                                 "; the nearest that this model takes is ",
                                                 nearest));
}

}  // namespace

Range SplitRange(int64_t total, int64_t unit, int ranks, int rank) {
  const int64_t units = (total + unit - 1) / unit;
  return {std::min(total, units * rank / ranks * unit),
          std::min(total, units * (rank + 1) / ranks * unit)};
}

absl::Status CheckRanks(const ModelConfig& config, int ranks) {
  return CheckBy(RankFault, config, ranks);
}

absl::Status CheckRankShape(const ModelConfig& config, int ranks) {
  return CheckBy(ShapeFault, config, ranks);
}

std::vector<int64_t> LeafBegins(const ModelConfig& config, Role role) {
  CHECK(role == Role::kAttentionOutput || role == Role::kDown || role == Role::kExpertDown)
      << RoleName(role);
  const bool heads = role == Role::kAttentionOutput;
  const int64_t unit = heads ? config.head_dim : 1;
  const int64_t units = heads                       ? config.num_heads
                        : role == Role::kExpertDown ? config.expert_intermediate_size
                                                    : config.intermediate_size;
  std::vector<int64_t> begin;
  for (int leaf = 0; leaf <= kLeaves; ++leaf) begin.push_back(units * leaf / kLeaves * unit);
  return begin;
}

std::vector<int64_t> LeafBeginsOfRank(const ModelConfig& config, Role role, int ranks, int rank) {
  const std::vector<int64_t> all = LeafBegins(config, role);
  if (config.whole_experts && role == Role::kExpertDown) return all;
  const int first = rank * kLeaves / ranks;
  std::vector<int64_t> own;
  for (int leaf = first; leaf <= (rank + 1) * kLeaves / ranks; ++leaf) {
    own.push_back(all[leaf] - all[first]);
  }
  return own;
}

Range ExpertsOfRank(const ModelConfig& config, int ranks, int rank) {
  if (!config.whole_experts) return {0, config.num_experts};
  return SplitRange(config.num_experts, 1, ranks, rank);
}

Range VocabularyOfRank(const ModelConfig& config, int ranks, int rank) {
  return SplitRange(config.vocab_size, kVocabSplitRows, ranks, rank);
}

RankWidths WidthsOfRank(const ModelConfig& config, int ranks, int rank) {
  const auto width = [&](Role role) { return LeafBeginsOfRank(config, role, ranks, rank).back(); };
  return {.query = width(Role::kAttentionOutput),
          .key_value = KvHeadsPerRank(config, ranks, rank) * config.head_dim,
          .intermediate = config.has_dense_mlp() ? width(Role::kDown) : 0,
          .expert = config.has_experts() ? width(Role::kExpertDown) : 0,
          .vocab = VocabularyOfRank(config, ranks, rank).size()};
}

std::vector<int64_t> KvHeadsOfRank(const ModelConfig& config, int ranks, int rank) {
  const Range queries = SplitRange(config.num_heads, 1, ranks, rank);
  const int64_t group = config.num_heads / config.num_kv_heads;
  // The number of the queries that are of one head, and what divides all these numbers.
  const auto of_one = [&](int64_t query) {
    return std::min(queries.end, (query / group + 1) * group) - query;
  };
  int64_t each = 0;
  for (int64_t q = queries.begin; q < queries.end; q += of_one(q)) each = std::gcd(each, of_one(q));
  std::vector<int64_t> heads;
  for (int64_t q = queries.begin; q < queries.end; q += each) heads.push_back(q / group);
  return heads;
}

int64_t KvHeadsPerRank(const ModelConfig& config, int ranks, int rank) {
  return static_cast<int64_t>(KvHeadsOfRank(config, ranks, rank).size());
}

int64_t KvHeadsPerRank(const ModelConfig& config, int ranks) {
  int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    most = std::max(most, KvHeadsPerRank(config, ranks, rank));
  }
  return most;
}

int64_t KvBytesPerToken(const ModelConfig& config, const StageShare& share, int ranks,
                        std::optional<DType> kv_dtype) {
  return 2 * share.num_layers * KvHeadsPerRank(config, ranks) * config.head_dim *
         DTypeBytes(kv_dtype.value_or(config.dtype));
}

ShardTensor ShareTensor(const ModelConfig& config, WeightSpec spec, int ranks, int rank) {
  ShardTensor part;
  part.rows = {0, spec.shape[0]};
  const int64_t cols = spec.shape.size() > 1 ? spec.shape[1] : 1;
  part.cols = {0, cols};
  const bool whole = config.whole_experts && IsExpert(spec.role);
  if (whole) {
    const Range own = ExpertsOfRank(config, ranks, rank);
    if (spec.expert < own.begin || spec.expert >= own.end) part.rows = {0, 0};
  } else if (spec.split == SplitAxis::kOut) {
    part.rows = RowsOf(config, spec, ranks, rank);
  } else if (spec.split == SplitAxis::kIn) {
    part.cols = ColumnsOf(config, spec, ranks, rank);
  }
  part.held_rows = part.rows.size();
  if (IsKeyOrValue(spec.role)) {
    const std::vector<int64_t> held = KvHeadsOfRank(config, ranks, rank);
    part.held_rows = static_cast<int64_t>(held.size()) * config.head_dim;
    if (part.held_rows != part.rows.size()) {
      part.copies.resize(static_cast<size_t>(held.back() - held.front() + 1));
      for (const int64_t head : held) ++part.copies[static_cast<size_t>(head - held.front())];
    }
  }
  const int64_t element = DTypeBytes(config.dtype);
  part.bytes.begin = ((spec.first_row + part.rows.begin) * cols + part.cols.begin) * element;
  part.bytes.end = part.bytes.begin;
  if (part.rows.size() > 0 && part.cols.size() > 0) {
    part.bytes.end = ((spec.first_row + part.rows.end - 1) * cols + part.cols.end) * element;
  }
  part.spec = std::move(spec);
  return part;
}

Range StoredBytes(const ModelConfig& config, const ShardTensor& part, int64_t stored_bytes) {
  const int64_t element = DTypeBytes(config.dtype);
  return {part.bytes.begin / element * stored_bytes, part.bytes.end / element * stored_bytes};
}

std::vector<ShardTensor> ListShardTensors(const ModelConfig& config, const StageShare& share,
                                          int ranks, int rank) {
  CHECK(CheckStageShare(config, share).ok() && CheckRankShape(config, ranks).ok());
  CHECK(rank >= 0 && rank < ranks) << rank << " of " << ranks;
  std::vector<ShardTensor> tensors;
  for (WeightSpec& spec : ListWeights(config, share)) {
    ShardTensor tensor = ShareTensor(config, std::move(spec), ranks, rank);
    if (tensor.rows.size() > 0) tensors.push_back(std::move(tensor));
  }
  if (share.has_embedding && share.has_head && config.tie_word_embeddings) {
    for (ShardTensor& tensor : tensors) {
      tensor.shared_with_embedding = tensor.spec.role == Role::kHead;
    }
  }
  return tensors;
}

ShardBytes ComputeShardBytes(const ModelConfig& config, const StageShare& share, int ranks,
                             int rank, const PackingRule& packing) {
  PackedSizes sizes(config, ranks, rank, packing);
  for (const ShardTensor& tensor : ListShardTensors(config, share, ranks, rank)) {
    sizes.Add(tensor);
  }
  return sizes.bytes();
}

}  // namespace tutti::model
