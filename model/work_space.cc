#include "model/work_space.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "model/layer_kinds.h"

namespace tutti::model {
namespace {

// Bounds of the weights that a rank packs; every stage has a layer.
kernels::GpuProductBounds ProductBoundsOf(const ModelConfig& config, const StageShare& share,
                                          int ranks, int rank) {
  kernels::GpuProductBounds bounds;
  const auto cover = [&](const QuantConfig* quant, Role role,
                         const std::vector<int64_t>& leaf_begin, int64_t out_features) {
    const int64_t leaves = static_cast<int64_t>(leaf_begin.size()) - 1;
    if (quant != nullptr) {
      // Rows become bf16 there, or stay as they are.
      const DType type = config.dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
      const kernels::StripCounts counts = CountProductStrips(config, *quant, role, ranks, rank);
      return bounds.Cover(counts.padded, leaves, out_features, type);
    }
    int64_t packed = 0;
    for (size_t leaf = 0; leaf + 1 < leaf_begin.size(); ++leaf) {
      const int64_t length = leaf_begin[leaf + 1] - leaf_begin[leaf];
      packed += (length + kernels::kGpuChunkK - 1) / kernels::kGpuChunkK * kernels::kGpuChunkK;
    }
    bounds.Cover(packed, leaves, out_features, config.dtype);
  };
  // Products of one leaf: their outputs do not count.
  const std::vector<int64_t> whole = {0, config.hidden_size};
  if (share.has_embedding) cover(nullptr, Role::kEmbedding, whole, 0);
  if (share.has_head) cover(config.quant.Find(Role::kHead, -1), Role::kHead, whole, 0);
  // Of a layer of each kind, whichever the share has: stages differ in nothing else.
  for (const int64_t layer : KindsOfLayers(config)) {
    const auto cover_whole = [&](Role role) {
      cover(config.quant.Find(role, layer), role, whole, 0);
    };
    const auto cover_leaves = [&](Role role) {
      cover(config.quant.Find(role, layer), role, LeafBeginsOfRank(config, role, ranks, rank),
            config.hidden_size);
    };
    cover_whole(Role::kValue);
    cover_leaves(Role::kAttentionOutput);
    if (config.has_dense_mlp()) cover_whole(Role::kUp), cover_leaves(Role::kDown);
    if (config.has_experts()) cover_whole(Role::kExpertUp), cover_leaves(Role::kExpertDown);
  }
  return bounds;
}

// Null: no matrix has such a format.
const QuantConfig* FormatThatRoundsRows(const ModelConfig& config) {
  std::vector<int64_t> layers = KindsOfLayers(config);
  layers.push_back(-1);  // what is of no layer: the head
  for (const int64_t layer : layers) {
    for (int role = 0; role <= static_cast<int>(Role::kHead); ++role) {
      const QuantConfig* const format = config.quant.Find(static_cast<Role>(role), layer);
      if (format != nullptr && format->quantises_activations) return format;
    }
  }
  return nullptr;
}

}  // namespace

StepBounds StepBoundsOf(const ModelConfig& config, const StageShare& share, int ranks, int rank,
                        const StepSizes& sizes) {
  const RankWidths widths = WidthsOfRank(config, ranks, rank);
  const int64_t rows = sizes.max_batch_tokens;
  StepBounds bounds = {.rows = rows,
                       .sequences = sizes.max_sequences,
                       .positions = sizes.max_model_len,
                       .query_heads = widths.query / config.head_dim,
                       .kv = {.dtype = config.dtype,
                              .block_size = sizes.block_size,
                              .kv_heads = KvHeadsPerRank(config, ranks, rank),
                              .head_dim = config.head_dim},
                       .vocab = share.has_head ? widths.vocab : 0,
                       .experts_per_token = config.experts_per_token};
  // Activations of the stages beside this one; over ranks also sums; a row of logits for callers
  // that look at them.
  const bool carries = !share.has_embedding || !share.has_head || ranks > 1;
  const int64_t sums = ranks == 1 ? rows : std::max(rows, ExpertRows(config, rows));
  bounds.carried_values = std::max(carries ? sums * config.hidden_size : 0, bounds.vocab);
  return bounds;
}

int64_t ActivationBytes(const ModelConfig& config, const StageShare& share, int ranks, int rank,
                        const StepSizes& sizes, DeviceKind kind) {
  int64_t bytes = WorkSpaceBytes(config, share.has_head, sizes.max_batch_tokens,
                                 sizes.max_sequences, ranks, rank, kind);
  if (kind == DeviceKind::kCuda) {
    if (ranks > 1) bytes += kernels::kGpuExchangeWorkBytes;
    const int64_t neighbours = (share.has_embedding ? 0 : 1) + (share.has_head ? 0 : 1);
    bytes += neighbours * kernels::kGpuLinkSlots * sizes.max_batch_tokens * config.hidden_size *
             DTypeBytes(config.residual_dtype());
    bytes += kernels::GpuOperatorBytes(StepBoundsOf(config, share, ranks, rank, sizes),
                                       ProductBoundsOf(config, share, ranks, rank));
  }
  return bytes;
}

absl::Status CheckDeviceKind(const ModelConfig& config, DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return absl::OkStatus();
  if (const QuantConfig* format = FormatThatRoundsRows(config)) {
    return absl::UnimplementedError(absl::StrCat(
        "no CUDA kernels for products that round activations to int8 (",
        DescribeQuantConfig(*format),
        "). CPUs serve this model; GPUs serve weights in int8 alone, and the same model in bf16"));
  }
  if (config.head_dim <= kernels::kGpuHeadDimMax) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("heads of ", config.head_dim,
                                               " dimensions; the CUDA kernels attend over at most ",
                                               kernels::kGpuHeadDimMax, ". CPUs serve this model"));
}

}  // namespace tutti::model
