// One output being generated: its tokens, how far they are computed, and the KV blocks it holds.
//
// Tokens catch up: a sequence has `total` tokens and has `computed` so many of them; steps under
// way bring it to `planned`. Being far behind (a prompt) and one token behind (generating) are the
// same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/request.h"

namespace tutti {

struct Sequence {
  // ---- constant after construction
  Request request;       // its prompt moved into `tokens`
  uint64_t arrival = 0;  // order of arrival, the scheduler's only priority
  Instant arrived_at;
  int32_t prompt_tokens = 0;

  // ---- the output so far
  std::vector<TokenId> tokens;              // prompt, then what was sampled
  std::optional<Instant> first_planned_at;  // of the first step that computes something of it

  // ---- its stay among the running; empty while waiting
  SequenceId
      id;  // its name on the workers, new for each stay: results of an earlier one find nobody
  bool known_to_workers = false;  // a plan with it has been written
  std::vector<BlockId> blocks;    // block of slot p: blocks[p / block_size]
  int32_t computed = 0;           // tokens whose K/V is in the cache on every stage
  int32_t planned = 0;            // the same once all steps under way are done
  int32_t tokens_told = 0;        // tokens the workers know
  int32_t blocks_told = 0;

  int32_t total() const { return static_cast<int32_t>(tokens.size()); }
  int32_t behind() const { return total() - planned; }
  int32_t output_tokens() const { return total() - prompt_tokens; }
  // KV slots it can ever need: the last token sampled is delivered, never computed.
  int64_t kv_slots_max() const { return int64_t{prompt_tokens} + request.max_tokens - 1; }
};

}  // namespace tutti
