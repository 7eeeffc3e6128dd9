#include "kernels/cpu/attention_plan.h"

#include <algorithm>

namespace tutti::kernels::cpu {
namespace {

// (entry, slot) pairs of an item, to within a position.
int64_t CostOf(const AttentionItem& item, int64_t group) {
  const int64_t first = item.first_position + item.entry_begin / group;
  const int64_t last = item.first_position + (item.entry_end - 1) / group;
  // Every item also loads its queries and writes its outputs, about as much as 32 slots.
  return (item.entry_end - item.entry_begin) * ((first + last) / 2 + 1 + 32);
}

}  // namespace

void PlanAttention(const AttentionBatch& batch, int64_t kv_heads, int64_t group, int64_t entries,
                   int threads, AttentionPlan* plan) {
  plan->items.clear();
  int64_t total = 0;
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    const int64_t all = (batch.row_begin[s + 1] - batch.row_begin[s]) * group;
    if (all == 0) continue;
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t begin = 0; begin < all; begin += entries) {
        const AttentionItem item = {static_cast<int32_t>(head),
                                    batch.row_begin[s],
                                    batch.first_position[s],
                                    batch.blocks.data() + batch.block_begin[s],
                                    begin,
                                    std::min(all, begin + entries)};
        total += CostOf(item, group);
        plan->items.push_back(item);
      }
    }
  }
  // Thread t ends behind the item in whose middle its share of the cost ends.
  plan->thread_begin.assign(1, 0);
  int64_t done = 0;
  for (size_t i = 0; i < plan->items.size(); ++i) {
    const int64_t cost = CostOf(plan->items[i], group);
    const auto next = static_cast<int64_t>(plan->thread_begin.size());
    if (next < threads && (done + cost / 2) * threads >= total * next) {
      plan->thread_begin.push_back(static_cast<int64_t>(i));
    }
    done += cost;
  }
  plan->thread_begin.resize(static_cast<size_t>(threads) + 1,
                            static_cast<int64_t>(plan->items.size()));
}

}  // namespace tutti::kernels::cpu
