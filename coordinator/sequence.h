// One output being generated: its tokens, how far they are computed, and the KV blocks it holds.
//
// Tokens catch up: a sequence has `total` tokens and has `computed` so many of them; steps under
// way bring it to `planned`. Being far behind (a prompt) and one token behind (generating) are the
// same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/request.h"

namespace tutti::coordinator {

struct Sequence {
  // ---- constant after construction
  Request request;       // its prompt moved into `tokens`
  uint64_t arrival = 0;  // order of arrival
  Instant arrived_at;
  Instant due;  // its place in the order within its class: its deadline, or a patient client's
  int32_t prompt_tokens = 0;

  // ---- where it is
  int32_t pipeline = -1;  // the one it is bound to; -1: none, it is in the admission queue
  int32_t losses = 0;     // pipelines lost while they computed something of it
  uint64_t place = 0;     // in the order in which sequences were bound to that pipeline
  int64_t charged = 0;    // tokens its tenant has been charged for it

  // ---- the output so far
  std::vector<TokenId> tokens;              // prompt, then what was sampled
  std::optional<Instant> first_planned_at;  // of the first step that computes something of it

  // ---- how much of its prompt was in the KV cache when it was first admitted
  int32_t cached_tokens = 0;

  // ---- while it waits: the one that computes what it would share, and up to which block
  SequenceId held_for;
  int32_t held_until = 0;

  // ---- its stay among the running; empty while waiting
  SequenceId
      id;  // its name on the workers, new for each stay: results of an earlier one find nobody
  bool known_to_workers = false;  // a plan with it has been written
  std::vector<BlockId> blocks;    // block of slot p: blocks[p / block_size]
  int32_t computed = 0;           // tokens whose K/V is in the cache on every stage
  int32_t planned = 0;            // the same once all steps under way are done
  int32_t published = 0;          // blocks that the KV directory knows, from the first
  int32_t tokens_told = 0;        // tokens the workers know
  int32_t blocks_told = 0;

  int32_t total() const { return static_cast<int32_t>(tokens.size()); }
  int32_t behind() const { return total() - planned; }
  int32_t output_tokens() const { return total() - prompt_tokens; }
  // The order in which those bound to a pipeline begin to run there ...
  auto turn() const { return std::make_pair(request.priority, place); }
  // ... and in which those who run stay when blocks run out: the last one goes.
  auto rank() const { return std::make_pair(request.priority, arrival); }
  // KV slots it can ever need: the last token sampled is delivered, never computed.
  int64_t kv_slots_max() const { return int64_t{prompt_tokens} + request.max_tokens - 1; }
};

}  // namespace tutti::coordinator
