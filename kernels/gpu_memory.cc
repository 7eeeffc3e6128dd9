#include "kernels/gpu_memory.h"

#include <algorithm>

namespace tutti::kernels {
namespace {

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The largest plan that attention_plan.cc may make of a step within the bounds.
struct AttentionBounds {
  int64_t sequences = 0;  // that have rows
  int64_t pairs = 0;      // of all together
  int64_t record_floats = 0;
  int64_t records = 0;
};

AttentionBounds BoundAttention(const StepBounds& bounds) {
  AttentionBounds result;
  result.sequences = std::min(bounds.sequences, bounds.rows);
  if (bounds.kv.kv_heads == 0 || bounds.kv.dtype == DType::kF32) return result;
  const int64_t group = bounds.query_heads / bounds.kv.kv_heads;
  result.pairs = bounds.rows * group;
  result.record_floats =
      bounds.kv.kv_heads * kGpuPairs * int64_t{GpuPaddedHeadDim(bounds.kv.head_dim, false)};
  // Each sequence is cut into shares of kGpuPairs, the last of them not full, up to
  // kGpuSpreadPairs.
  const int64_t shares = std::min(result.sequences * (kGpuSpreadPairs / kGpuPairs),
                                  result.sequences + result.pairs / kGpuPairs);
  const int64_t tiles = RoundUp(bounds.positions, kGpuAttentionTile) / kGpuAttentionTile;
  const int64_t room = kGpuSpreadBytesMax / (result.record_floats * int64_t{sizeof(float)});
  result.records = std::min(shares * tiles, room);
  return result;
}

}  // namespace

int64_t GpuBytesForUsable(int64_t usable_bytes, bool cublas) {
  int64_t bytes = GpuBytesNotOffered(cublas) +
                  static_cast<int64_t>(static_cast<double>(usable_bytes) / kGpuOfferedShare);
  while (UsableGpuBytes(bytes, cublas) < usable_bytes) ++bytes;  // lost by rounding
  return bytes;
}

void GpuProductBounds::Cover(int64_t packed, int64_t leaves, int64_t out_features, DType dtype) {
  if (dtype == DType::kF32) return;
  packed_width = std::max(packed_width, packed);
  if (dtype == DType::kF16) scaled_leaves = std::max(scaled_leaves, leaves);
  if (leaves > 1) leaf_outputs = std::max(leaf_outputs, leaves * out_features);
}

GpuWorkBytes GpuWorkBytesOf(const StepBounds& bounds, const GpuProductBounds& products) {
  const AttentionBounds attention = BoundAttention(bounds);
  constexpr int64_t kFloat = sizeof(float);
  GpuWorkBytes bytes;
  bytes.packed_rows = GpuPackedRows(bounds.rows) * products.packed_width * 2;
  bytes.row_scales = bounds.rows * products.scaled_leaves * kFloat;
  if (bounds.rows > kGpuStreamRows) {
    bytes.leaf_sums =
        std::min<int64_t>(bounds.rows, kGpuLeafSumRows) * products.leaf_outputs * kFloat;
  }
  bytes.record_values = attention.records * attention.record_floats * kFloat;
  bytes.record_sums = attention.records * bounds.kv.kv_heads * kGpuPairs * 2 * kFloat;
  bytes.carried = bounds.carried_values * kFloat;
  if (bounds.vocab > 0) bytes.results = GpuResultBytes(bounds.vocab);
  bytes.choice = bounds.rows * bounds.experts_per_token * 2 * kFloat;
  return bytes;
}

GpuArrayBytes GpuArrayBytesOf(const StepBounds& bounds) {
  const AttentionBounds attention = BoundAttention(bounds);
  constexpr int64_t kNumber = sizeof(int32_t);
  GpuArrayBytes bytes;
  bytes.rows = bounds.rows * kNumber;
  bytes.expert_rows = bounds.rows * bounds.experts_per_token * kNumber;
  const int64_t table = RoundUp(bounds.positions, bounds.kv.block_size) / bounds.kv.block_size;
  bytes.blocks = bounds.sequences * table * kNumber;
  // A list holds the records and one item for each sequence, or for each full block of pairs and
  // the rest of each sequence.
  const int64_t walked = attention.sequences + attention.pairs / (kGpuPairs * kGpuAttentionWarps);
  const int64_t items = GpuPaddedItems(std::max(attention.records + attention.sequences, walked));
  bytes.items = items * kGpuAttentionItemBytes;
  bytes.folds = attention.sequences * (kGpuSpreadPairs / kGpuPairs) * kGpuFoldItemBytes;
  bytes.vocabulary =
      bounds.vocab > 0 ? (RoundUp(bounds.vocab, kGpuAdjustmentsTogether) + 1) * kNumber : 0;
  bytes.frequencies = bounds.kv.head_dim / 2 * kNumber;
  return bytes;
}

// Arrays in the numbers that CudaBackend and CudaFamilyOperators have of each kind.
int64_t GpuArrayBytes::total() const {
  const auto held = [](int64_t bytes) { return std::max(bytes, kGpuSmallestUpload); };
  return kGpuRememberedUploads *
         (7 * held(rows) + 2 * held(expert_rows) + held(blocks) + 2 * held(items) + held(folds) +
          6 * held(vocabulary) + held(frequencies));
}

}  // namespace tutti::kernels
