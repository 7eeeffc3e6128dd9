#include "coordinator/requests/router.h"

#include <tuple>

#include "coordinator/limits.h"

namespace tutti::coordinator {

int64_t RouteCost(const PipelineLoad& load, int64_t prompt_tokens, int32_t step_rows) {
  const int64_t prompts = load.backlog_tokens + prompt_tokens - load.cached_tokens;
  const int64_t steps = (prompts + step_rows - 1) / step_rows;
  int64_t cost = prompts + steps * load.running + load.evicted_tokens / kEvictionsPerRecompute;
  // Where R run, each an answer of L rows, one in every R steps ends: L rows for each place that
  // has to become free.
  cost += (kRecomputeWeight - 1) * (prompt_tokens - load.cached_tokens);
  if (!load.has_room) cost += int64_t{kExpectedOutputTokens} * (1 + load.waiting);
  return cost;
}

std::optional<size_t> ChoosePipeline(std::span<const PipelineLoad> loads, int64_t prompt_tokens,
                                     int32_t step_rows) {
  std::optional<size_t> best;
  std::tuple<int64_t, int32_t> least;
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!loads[i].can_hold) continue;
    const std::tuple cost{RouteCost(loads[i], prompt_tokens, step_rows), loads[i].running};
    if (best.has_value() && cost >= least) continue;
    best = i;
    least = cost;
  }
  return best;
}

}  // namespace tutti::coordinator
