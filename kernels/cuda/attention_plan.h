// The division of attention among blocks of threads. Pure; it changes no bits (see attention.h).
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention.h"

namespace tutti::kernels::cuda {

// Behind the items of a list come empty ones (pair_begin == pair_end), up to GpuPaddedItems, and
// sequences that could be spread have their folds, empty where they are not: so steps that differ
// only in how far their sequences are have lists of equal length, most of the time.
struct AttentionPlan {
  std::vector<AttentionItem> narrow;  // at most kPairs pairs
  std::vector<AttentionItem> wide;    // at most `wide_pairs`
  std::vector<FoldItem> folds;
  int32_t records = 0;
  int32_t fold_pairs = 0;  // the most that a fold has
  // Whether `narrow` are kCrowdedTimes as many as run side by side, and none has two tiles.
  bool crowded = false;
};

// Sequences of few pairs and several tiles get a block per tile, as long as their records fit into
// `records_max`; all others walk their tiles in one block per share of their pairs, the longest
// walks first. Walked are also sequences of at most kPairs pairs whose tiles are no more than a
// `side_by_side`th of all: a device that works at so many items at once is busy without spreading
// them.
AttentionPlan PlanAttention(const AttentionBatch& batch, int32_t group, int64_t records_max,
                            int32_t wide_pairs = kPairs * kAttentionWarps,
                            int64_t side_by_side = kFewBlocks);

// For each row of the batch: its position, the first block of its sequence, and the slot of the
// cache it writes to.
struct RowTable {
  std::vector<int32_t> position, block_begin, slot;
};
RowTable PlanRows(const AttentionBatch& batch, int64_t block_size);

}  // namespace tutti::kernels::cuda
