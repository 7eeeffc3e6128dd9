#include "kernels/cuda/cuda_attention.h"

#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/rows.h"

namespace tutti::kernels::cuda {

static_assert(sizeof(AttentionItem) == kGpuAttentionItemBytes);
static_assert(sizeof(FoldItem) == kGpuFoldItemBytes);

KvLayout LayoutOf(const KvShape& shape) {
  const bool plain = shape.dtype == DType::kF32;
  return {.block_size = static_cast<int32_t>(shape.block_size),
          .kv_heads = static_cast<int32_t>(shape.kv_heads),
          .dim = GpuPaddedHeadDim(shape.head_dim, plain),
          .plain = plain};
}

absl::Status CudaAttention::Reserve(const GpuWorkBytes& work, const GpuArrayBytes& arrays) {
  TUTTI_RETURN_IF_ERROR(record_values_.Reserve(work.record_values));
  TUTTI_RETURN_IF_ERROR(record_sums_.Reserve(work.record_sums));
  for (Uploads* const uploads : {&positions_, &slots_, &row_positions_, &row_blocks_}) {
    TUTTI_RETURN_IF_ERROR(uploads->Reserve(arrays.rows));
  }
  for (Uploads* const uploads : {&narrow_items_, &wide_items_}) {
    TUTTI_RETURN_IF_ERROR(uploads->Reserve(arrays.items));
  }
  TUTTI_RETURN_IF_ERROR(frequencies_.Reserve(arrays.frequencies));
  TUTTI_RETURN_IF_ERROR(blocks_.Reserve(arrays.blocks));
  return folds_.Reserve(arrays.folds);
}

void CudaAttention::GiveBack() {
  for (WorkSpace* const space : {&record_values_, &record_sums_}) space->GiveBack();
  for (Uploads* const uploads : {&positions_, &frequencies_, &slots_, &row_positions_, &row_blocks_,
                                 &blocks_, &narrow_items_, &wide_items_, &folds_}) {
    uploads->GiveBack();
  }
}

int64_t CudaAttention::bytes() const {
  int64_t total = record_values_.bytes() + record_sums_.bytes();
  for (const Uploads* const uploads :
       {&positions_, &frequencies_, &slots_, &row_positions_, &row_blocks_, &blocks_,
        &narrow_items_, &wide_items_, &folds_}) {
    total += uploads->bytes();
  }
  return total;
}

void CudaAttention::HeadNormRope(const TensorView& x, int64_t head_dim, const TensorView& norm,
                                 float epsilon, std::span<const int32_t> positions,
                                 std::span<const float> inverse_frequency) {
  LaunchHeadNormRope({.x = x.f32(),
                      .stride = Stride(x),
                      .rows = x.rows,
                      .heads = x.cols / head_dim,
                      .head_dim = static_cast<int32_t>(head_dim),
                      .epsilon = epsilon,
                      .norm = norm.data == nullptr ? nullptr : norm.f32(),
                      .position = positions_.Get(positions),
                      .inverse_frequency = frequencies_.Get(inverse_frequency)},
                     runtime_);
}

void CudaAttention::WriteKv(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                            const KvLayer& cache) {
  const RowTable& rows = Rows(batch, cache.shape.block_size);
  LaunchWriteKv({.k = k.f32(),
                 .v = v.f32(),
                 .k_stride = Stride(k),
                 .v_stride = Stride(v),
                 .cache = cache.data,
                 .layout = LayoutOf(cache.shape),
                 .head_dim = static_cast<int32_t>(cache.shape.head_dim),
                 .rows = static_cast<int32_t>(k.rows),
                 .type = cache.shape.dtype,
                 .slot = slots_.Get(std::span<const int32_t>(rows.slot))},
                runtime_);
}

void CudaAttention::Attention(const TensorView& q, const KvLayer& cache,
                              const AttentionBatch& batch, float scale, const TensorView& out) {
  if (q.rows == 0) return;
  if (cache.shape.dtype == DType::kF32) {
    PlainAttend(q, cache, batch, scale, out);
  } else {
    TensorAttend(q, cache, batch, scale, out, {});
  }
}

// Of f16 rows the largest number has to be known before the first is rounded, and a block has only
// some heads. Heads lie in one leaf as a whole.
bool CudaAttention::Packs(const KvShape& shape, const CudaWeight& weight) {
  if (shape.dtype == DType::kF32 || weight.dtype() != DType::kBF16) return false;
  const LeafMap& leaves = weight.leaves();
  return std::all_of(leaves.begin, leaves.begin + leaves.leaves + 1,
                     [&](int32_t begin) { return begin % shape.head_dim == 0; });
}

void CudaAttention::AttentionPacked(const TensorView& q, const KvLayer& cache,
                                    const AttentionBatch& batch, float scale,
                                    const PackedTarget& out) {
  TensorAttend(q, cache, batch, scale, {}, out);
}

bool CudaAttention::TurnsManyRows(const KvShape& shape) {
  return cuda::TurnsManyRows(static_cast<int32_t>(shape.head_dim), LayoutOf(shape).dim);
}

void CudaAttention::TurnAndWriteKv(const TensorView& qkv, const HeadTurn& turn,
                                   const AttentionBatch& batch, const KvLayer& cache) {
  const RowTable& rows = Rows(batch, cache.shape.block_size);
  const auto vector = [](const TensorView& view) {
    return view.data == nullptr ? nullptr : view.f32();
  };
  const int64_t heads = qkv.cols / cache.shape.head_dim - 2 * cache.shape.kv_heads;
  LaunchTurn({.qkv = qkv.f32(),
              .stride = Stride(qkv),
              .bias = vector(turn.bias),
              .query_norm = vector(turn.query_norm),
              .key_norm = vector(turn.key_norm),
              .position = positions_.Get(turn.positions),
              .inverse_frequency = frequencies_.Get(turn.inverse_frequency),
              .cache = cache.data,
              .slot = slots_.Get(std::span<const int32_t>(rows.slot)),
              .layout = LayoutOf(cache.shape),
              .heads = static_cast<int32_t>(heads),
              .head_dim = static_cast<int32_t>(cache.shape.head_dim),
              .rows = static_cast<int32_t>(qkv.rows),
              .epsilon = turn.epsilon,
              .type = cache.shape.dtype},
             runtime_);
}

const RowTable& CudaAttention::Rows(const AttentionBatch& batch, int64_t block_size) {
  if (row_key_.Update(batch, block_size)) row_table_ = PlanRows(batch, block_size);
  return row_table_;
}

void CudaAttention::PlainAttend(const TensorView& q, const KvLayer& cache,
                                const AttentionBatch& batch, float scale, const TensorView& out) {
  const RowTable& rows = Rows(batch, cache.shape.block_size);
  const int64_t heads = q.cols / cache.shape.head_dim;
  LaunchPlainAttention({.q = q.f32(),
                        .q_stride = Stride(q),
                        .out = out.f32(),
                        .out_stride = Stride(out),
                        .cache = static_cast<const float*>(cache.data),
                        .layout = LayoutOf(cache.shape),
                        .rows = static_cast<int32_t>(q.rows),
                        .heads = static_cast<int32_t>(heads),
                        .group = static_cast<int32_t>(heads / cache.shape.kv_heads),
                        .scale = scale,
                        .blocks = blocks_.Get(batch.blocks),
                        .position = row_positions_.Get(std::span<const int32_t>(rows.position)),
                        .block_begin = row_blocks_.Get(std::span<const int32_t>(rows.block_begin))},
                       runtime_);
}

void CudaAttention::TensorAttend(const TensorView& q, const KvLayer& cache,
                                 const AttentionBatch& batch, float scale, const TensorView& out,
                                 const PackedTarget& packed) {
  const KvLayout layout = LayoutOf(cache.shape);
  const auto group = static_cast<int32_t>(q.cols / (cache.shape.head_dim * cache.shape.kv_heads));
  const int64_t values = int64_t{1} * layout.kv_heads * kPairs * layout.dim;  // of a record
  const bool by_wgmma =
      wgmma_ && HasWideAttention(layout, static_cast<int32_t>(cache.shape.head_dim));
  if (plan_key_.Update(batch, group * int64_t{1000000007} + values)) {
    plan_ = PlanAttention(batch, group, kSpreadBytesMax / (values * 4),
                          by_wgmma ? kWidePairs : kPairs * kAttentionWarps,
                          std::max<int64_t>(1, kFewBlocks / layout.kv_heads));
  }
  AttentionArgs args = {.q = q.f32(),
                        .q_stride = Stride(q),
                        .out = packed.rows == nullptr ? out.f32() : nullptr,
                        .out_stride = Stride(out),
                        .packed = packed,
                        .cache = cache.data,
                        .layout = layout,
                        .head_dim = static_cast<int32_t>(cache.shape.head_dim),
                        .group = group,
                        .scale = scale,
                        .fold_pairs = plan_.fold_pairs,
                        .blocks = blocks_.Get(batch.blocks),
                        .folds = folds_.Get(std::span<const FoldItem>(plan_.folds)),
                        .fold_count = static_cast<int32_t>(plan_.folds.size()),
                        .record_values = record_values_.Of<float>(plan_.records * values),
                        .record_sums = record_sums_.Of<float>(int64_t{1} * plan_.records *
                                                              layout.kv_heads * kPairs * 2)};
  args.items = narrow_items_.Get(std::span<const AttentionItem>(plan_.narrow));
  args.item_count = static_cast<int32_t>(plan_.narrow.size());
  (plan_.crowded ? LaunchCrowdedAttention : LaunchFewAttention)(cache.shape.dtype, args, runtime_);
  args.items = wide_items_.Get(std::span<const AttentionItem>(plan_.wide));
  args.item_count = static_cast<int32_t>(plan_.wide.size());
  (by_wgmma ? LaunchWideAttention : LaunchAttention)(cache.shape.dtype, args, runtime_);
  LaunchFold(args, runtime_);
}

}  // namespace tutti::kernels::cuda
