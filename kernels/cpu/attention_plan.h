// Division of a ragged batch into pieces of attention work, and of the pieces over threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

struct AttentionPlan {
  std::vector<AttentionItem> items;
  std::vector<int64_t>
      thread_begin;  // [threads + 1]: thread t takes items [thread_begin[t], thread_begin[t + 1])
};

// Items cover every row and head once, with `entries` of them at most (KernelTable); how they are
// cut changes no bit. Threads get about equal numbers of (entry, slot) pairs, in order, so that one
// thread reads a sequence's cache front to back.
void PlanAttention(const AttentionBatch& batch, int64_t kv_heads, int64_t group, int64_t entries,
                   int threads, AttentionPlan* plan);

}  // namespace tutti::kernels::cpu
