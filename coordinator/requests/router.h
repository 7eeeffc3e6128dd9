// The pipeline that a request goes to: pure arithmetic over the load of each.
//
// The cost of a pipeline is counted in rows its steps compute before the request's first token: the
// prompts bound there before it, the prompt tokens that are not cached there, each weighing as much
// as several because recomputing delays all others, and a row in each of those steps for every
// sequence that generates. A conversation goes back to the pipeline that holds it because that
// leaves little to compute, unless the prompts before it there cost more; then it is computed
// elsewhere, and lives on both.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace tutti::coordinator {

// One serving pipeline as one request sees it.
struct PipelineLoad {
  bool can_hold = true;        // its KV pool can ever hold the request
  bool has_room = true;        // ... and could take it now
  int64_t cached_tokens = 0;   // of the prompt, from its beginning
  int64_t evicted_tokens = 0;  // cached tokens of others that would have to go to make room
  int64_t backlog_tokens = 0;  // prompt tokens bound to it that no step has been planned for
  int32_t running = 0;
  int32_t waiting = 0;  // bound to it
};

// REQUIRES: load.can_hold, cached_tokens <= prompt_tokens, step_rows > 0 (rows of the largest step)
int64_t RouteCost(const PipelineLoad& load, int64_t prompt_tokens, int32_t step_rows);

// The cheapest pipeline that can hold the request, an index into `loads`; of equals the one with
// fewer running, then the first. None: no pipeline can hold it.
std::optional<size_t> ChoosePipeline(std::span<const PipelineLoad> loads, int64_t prompt_tokens,
                                     int32_t step_rows);

}  // namespace tutti::coordinator
