#include "kernels/cuda/attention_plan.h"

#include <algorithm>

namespace tutti::kernels::cuda {
namespace {

// The pairs of one sequence in this step.
struct SequencePairs {
  AttentionItem item;  // first_row, first_position, block_begin
  int32_t pairs = 0;
  int32_t group = 1;

  int32_t TilesOf(int32_t pair) const {
    return (item.first_position + pair / group) / kAttentionTile + 1;
  }
};

int32_t SharesOf(const SequencePairs& sequence) { return (sequence.pairs + kPairs - 1) / kPairs; }

bool Spread(const SequencePairs& sequence, int64_t records_left, AttentionPlan* plan) {
  const int32_t tiles = sequence.TilesOf(sequence.pairs - 1);
  if (sequence.pairs > kSpreadPairs || tiles == 1) return false;
  if (int64_t{tiles} * SharesOf(sequence) > records_left) return false;
  for (int32_t begin = 0; begin < sequence.pairs; begin += kPairs) {
    const int32_t end = std::min(begin + kPairs, sequence.pairs);
    plan->folds.push_back({.first_row = sequence.item.first_row,
                           .first_position = sequence.item.first_position,
                           .pair_begin = begin,
                           .pair_end = end,
                           .record = plan->records});
    plan->fold_pairs = std::max(plan->fold_pairs, end - begin);
    for (int32_t tile = 0; tile < sequence.TilesOf(end - 1); ++tile) {
      AttentionItem item = sequence.item;
      item.pair_begin = begin;
      item.pair_end = end;
      item.tile_begin = tile;
      item.tile_end = tile + 1;
      item.record = plan->records++;
      plan->narrow.push_back(item);
    }
  }
  return true;
}

void Walk(const SequencePairs& sequence, int32_t wide_pairs, AttentionPlan* plan) {
  const bool narrow = sequence.pairs <= kPairs;
  const int32_t share = narrow ? kPairs : wide_pairs;
  for (int32_t begin = 0; begin < sequence.pairs; begin += share) {
    AttentionItem item = sequence.item;
    item.pair_begin = begin;
    item.pair_end = std::min(begin + share, sequence.pairs);
    item.tile_end = sequence.TilesOf(item.pair_end - 1);
    (narrow ? plan->narrow : plan->wide).push_back(item);
  }
}

void LongestFirst(std::vector<AttentionItem>* items) {
  std::stable_sort(items->begin(), items->end(), [](const auto& a, const auto& b) {
    return a.tile_end - a.tile_begin > b.tile_end - b.tile_begin;
  });
}

void Pad(std::vector<AttentionItem>* items) {
  items->resize(static_cast<size_t>(GpuPaddedItems(static_cast<int64_t>(items->size()))));
}

}  // namespace

AttentionPlan PlanAttention(const AttentionBatch& batch, int32_t group, int64_t records_max,
                            int32_t wide_pairs, int64_t side_by_side) {
  AttentionPlan plan;
  std::vector<SequencePairs> sequences;
  int32_t folds = 0;      // if all that could be spread were
  int64_t all_tiles = 0;  // of those, each share's
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    SequencePairs sequence;
    sequence.item.first_row = batch.row_begin[s];
    sequence.item.first_position = batch.first_position[s];
    sequence.item.block_begin = batch.block_begin[s];
    sequence.pairs = (batch.row_begin[s + 1] - batch.row_begin[s]) * group;
    sequence.group = group;
    if (sequence.pairs == 0) continue;
    sequences.push_back(sequence);
    if (sequence.pairs > kSpreadPairs) continue;
    folds += SharesOf(sequence);
    all_tiles += int64_t{SharesOf(sequence)} * sequence.TilesOf(sequence.pairs - 1);
  }
  for (const SequencePairs& sequence : sequences) {
    const int64_t tiles = sequence.TilesOf(sequence.pairs - 1);
    const bool is_short = sequence.pairs <= kPairs && tiles * side_by_side <= all_tiles;
    if (is_short || !Spread(sequence, records_max - plan.records, &plan)) {
      Walk(sequence, wide_pairs, &plan);
    }
  }
  LongestFirst(&plan.narrow);
  plan.crowded = static_cast<int64_t>(plan.narrow.size()) >= kCrowdedTimes * side_by_side &&
                 plan.narrow.front().tile_end - plan.narrow.front().tile_begin == 1;
  LongestFirst(&plan.wide);
  Pad(&plan.narrow);
  Pad(&plan.wide);
  if (!plan.folds.empty()) plan.folds.resize(static_cast<size_t>(folds));
  return plan;
}

RowTable PlanRows(const AttentionBatch& batch, int64_t block_size) {
  RowTable table;
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    for (int32_t r = batch.row_begin[s]; r < batch.row_begin[s + 1]; ++r) {
      const int64_t position = int64_t{batch.first_position[s]} + r - batch.row_begin[s];
      const int64_t block = batch.blocks[batch.block_begin[s] + position / block_size];
      table.position.push_back(static_cast<int32_t>(position));
      table.block_begin.push_back(batch.block_begin[s]);
      table.slot.push_back(static_cast<int32_t>(block * block_size + position % block_size));
    }
  }
  return table;
}

}  // namespace tutti::kernels::cuda
