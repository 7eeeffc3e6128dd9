// One output being generated: its tokens, how far they are computed, and the KV blocks it holds.
//
// Tokens catch up: a sequence has `total` tokens and has `computed` so many of them; steps under
// way bring it to `planned`. Being far behind (a prompt) and one token behind (generating) are the
// same thing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/request.h"
#include "coordinator/steps/guess_origin.h"
#include "coordinator/steps/guess_pace.h"
#include "coordinator/steps/row_turn.h"
#include "coordinator/suspicion.h"

namespace tutti::coordinator {

struct Sequence {
  // Where it is held back while it waits for a place: another sequence, which runs, computes blocks
  // that this one would share.
  struct HeldBack {
    // The id of the sequence that runs; none: not held back since it came to this pipeline.
    SequenceId by;
    // Blocks of that sequence that must be published before this one may be admitted.
    int32_t until_published = 0;
  };

  // One stay among the running of a pipeline: from admission until it ends, is preempted, or its
  // pipeline is lost. Replaced as a whole when it begins and when it ends.
  struct Stay {
    // Its name on the workers, new for each stay: results of an earlier stay match no sequence. The
    // null id: it does not run.
    SequenceId id;
    bool known_to_workers = false;  // a step's plan with it has been written
    std::vector<BlockId> blocks;    // block of slot p: blocks[p / block_size]
    int32_t computed = 0;           // tokens whose K/V is in the cache on every stage
    int32_t planned = 0;            // the same once all steps under way are done
    int32_t published = 0;          // blocks that the KV directory knows, from the first
    int32_t tokens_told = 0;        // tokens the workers know
    int32_t blocks_told = 0;
    int32_t rebuilds = 0;  // steps under way that rebuild blocks for it
    int32_t late = 0;      // times in a row that its token could not be drawn yet
    // What the draft model says may follow the known tokens; gone when the next step is planned.
    std::vector<TokenId> drafts;
    int32_t draft_read = 0;  // tokens that the draft model should have read by then
    RowTurn turn;
  };

  // ---- constant after construction
  Request request;       // its prompt and output moved into `tokens`
  uint64_t arrival = 0;  // order of arrival
  Instant arrived_at;
  Instant due;  // its place in the order within its class: its deadline, or a patient client's
  int32_t prompt_tokens = 0;

  // ---- where it is
  int32_t pipeline = -1;    // the one it is bound to; -1: none, it is in the admission queue
  Suspicion suspicion;      // of bringing workers down
  int32_t preemptions = 0;  // times that it gave its place up and waited again
  bool resumed = false;     // its pipeline ended, and it goes on before newcomers
  uint64_t recovery = 0;    // the recovery that waits for its next token; 0: none
  std::string numerics;     // the class in which its tokens are computed; empty: none is yet
  bool begun = false;       // a token of it has been delivered
  // Since when no pipeline that serves could hold it. Nothing: one can, or it is bound to one.
  std::optional<Instant> stranded_since;
  uint64_t place = 0;   // in the order in which sequences were bound to that pipeline
  int64_t charged = 0;  // tokens its owner has been charged for it
  HeldBack held_back;
  Stay stay;  // Stay() while it does not run

  // ---- the output so far
  std::vector<TokenId> tokens;              // prompt, then the sampled tokens
  std::optional<Instant> first_planned_at;  // of the first step that computes something of it

  // ---- what was guessed of it
  std::array<GuessPace, kGuessOriginCount> guess_paces = {GuessPace(), GuessPace(),
                                                          GuessPace(GuessPace::kUnknownDraft)};
  int32_t guessed = 0;        // tokens
  int32_t guessed_right = 0;  // of which so many were those that were drawn

  // ---- how much of its prompt was in the KV cache when it was first admitted
  int32_t cached_tokens = 0;

  GuessPace& PaceOf(GuessOrigin origin) { return guess_paces[IndexOf(origin)]; }
  const GuessPace& PaceOf(GuessOrigin origin) const { return guess_paces[IndexOf(origin)]; }
  std::span<const TokenId> prompt() const {
    return std::span<const TokenId>(tokens).first(static_cast<size_t>(prompt_tokens));
  }
  int32_t total() const { return static_cast<int32_t>(tokens.size()); }
  int32_t behind() const { return total() - stay.planned; }
  int32_t output_tokens() const { return total() - prompt_tokens; }
  // The order of sequences bound to a pipeline, of equal shares (place_shares.h).
  auto admission_key() const { return std::make_pair(request.priority, place); }
  // The order of running sequences; of a request that gives way, its last is preempted
  // (place_shares.h).
  auto preemption_key() const { return std::make_pair(request.priority, arrival); }
  // KV slots it can ever need: the last token sampled is delivered, never computed.
  int64_t kv_slots_max() const { return int64_t{prompt_tokens} + request.max_tokens - 1; }
};

}  // namespace tutti::coordinator
