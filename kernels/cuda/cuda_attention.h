// Heads on a GPU: turned by their positions, cached, and attended to.
//
// Thread: the backend's.
#pragma once

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/joined.h"
#include "kernels/cuda/layout.h"
#include "kernels/gpu_memory.h"
#include "kernels/joined_operators.h"

namespace tutti::kernels::cuda {

KvLayout LayoutOf(const KvShape& shape);

// Its operators are those of kernels/backend.h, with checked operands.
class CudaAttention {
 public:
  // wgmma: many rows attend by it, where there is such a kernel.
  // REQUIRES: the runtime outlives it.
  CudaAttention(LaunchQueue* runtime, bool wgmma) : runtime_(runtime), wgmma_(wgmma) {}

  // As Backend::Reserve and GiveBack, for these operators.
  absl::Status Reserve(const GpuWorkBytes& work, const GpuArrayBytes& arrays);
  void GiveBack();
  int64_t bytes() const;

  void HeadNormRope(const TensorView& x, int64_t head_dim, const TensorView& norm, float epsilon,
                    std::span<const int32_t> positions, std::span<const float> inverse_frequency);
  void WriteKv(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
               const KvLayer& cache);
  void Attention(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                 float scale, const TensorView& out);

  // Whether Attention can leave its result packed for a product with `weight`.
  static bool Packs(const KvShape& shape, const CudaWeight& weight);
  // Attention of 16-bit caches into `out` instead.   REQUIRES: Packs
  void AttentionPacked(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                       float scale, const PackedTarget& out);
  // JoinedOperators::TurnAndWriteKv, of at most kJoinedRows rows or where TurnsManyRows
  static bool TurnsManyRows(const KvShape& shape);
  void TurnAndWriteKv(const TensorView& qkv, const HeadTurn& turn, const AttentionBatch& batch,
                      const KvLayer& cache);

 private:
  // The last batch and the plan made from it: all layers of a step ask for the same.
  struct BatchKey {
    std::vector<int32_t> row_begin, first_position, block_begin, blocks;
    int64_t parameter = -1;
    bool Update(const AttentionBatch& batch, int64_t wanted) {
      const auto same = [](const std::vector<int32_t>& a, std::span<const int32_t> b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
      };
      if (parameter == wanted && same(row_begin, batch.row_begin) &&
          same(first_position, batch.first_position) && same(block_begin, batch.block_begin) &&
          same(blocks, batch.blocks)) {
        return false;
      }
      parameter = wanted;
      row_begin.assign(batch.row_begin.begin(), batch.row_begin.end());
      first_position.assign(batch.first_position.begin(), batch.first_position.end());
      block_begin.assign(batch.block_begin.begin(), batch.block_begin.end());
      blocks.assign(batch.blocks.begin(), batch.blocks.end());
      return true;
    }
  };

  const RowTable& Rows(const AttentionBatch& batch, int64_t block_size);
  void PlainAttend(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                   float scale, const TensorView& out);
  // Into `out`, or into `packed` where that has memory.
  void TensorAttend(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                    float scale, const TensorView& out, const PackedTarget& packed);

  LaunchQueue* const runtime_;
  const bool wgmma_;
  WorkSpace record_values_{runtime_}, record_sums_{runtime_};
  Uploads positions_{runtime_}, frequencies_{runtime_};
  Uploads slots_{runtime_}, row_positions_{runtime_}, row_blocks_{runtime_}, blocks_{runtime_};
  Uploads narrow_items_{runtime_}, wide_items_{runtime_}, folds_{runtime_};
  BatchKey row_key_, plan_key_;
  RowTable row_table_;
  AttentionPlan plan_;
};

}  // namespace tutti::kernels::cuda
