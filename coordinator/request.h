// A request as the core knows it: tokenized, defaults resolved, every limit checked. Every front
// end builds this type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/sip_hash.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

struct Request {
  RequestId id;                   // made by the service, unique for the life of the process
  std::vector<TokenId> prompt;    // at least one token
  v1::SequenceSampling sampling;  // resolved; seed always set
  int32_t max_tokens = 0;         // > 0; prompt + max_tokens <= max_model_len
  // The client did not ask for max_tokens: admission lowers it to what the KV cache holds.
  bool max_tokens_is_default = false;
  // Sorted; the end-of-sequence tokens among them unless ignore_eos.
  std::vector<TokenId> stop_token_ids;
  // Requests of one domain share K/V, others never: by default a keyed hash of the tenant's name.
  Hash128 cache_domain;
  Instant deadline = kInstantNever;  // the client's; the engine ends the request when it passes
  // Its class: lower goes first, 0 is that of a request which asks for none.
  int32_t priority = 0;  // [kPriorityMin, kPriorityMax]
  // Tokens that may be guessed for it in a step; 0: none. Nothing: as the operator chose.
  std::optional<int32_t> guesses_max;
  // The same of tokens that the draft model is asked for.
  std::optional<int32_t> drafts_max;
  // Whose it is, as a keyed hash: the tenant; of a request that names none the account that its
  // gateway says, or the host that it came from (door::TenantHasher). Owners share the queue, the
  // places of pipelines and the rows of steps; an answer may serve guesses for requests of the same
  // owner. Zero: one owner more, whose answers are nobody's.
  Hash128 owner;
  // As a number, which has an order.
  absl::uint128 owner_id() const { return absl::MakeUint128(owner.high, owner.low); }
  // The id of the first of several outputs of one request, which names the group. They share the
  // prompt's KV blocks, so they are served by one pipeline, and they arrive as one event. 0: the
  // only output.
  RequestId first_output;

  // The name that all outputs of the request have in common.
  RequestId of() const { return first_output == RequestId() ? id : first_output; }
  // ---- of an answer that goes on after it broke off
  bool resumes = false;
  std::vector<TokenId> output;  // what the client has of it, to be continued from as it stands
  std::string numerics;         // the class in which it was begun; empty: none yet
  bool allow_inexact = false;   // it may go on in other bits than it was begun
  // The output of the same answer that may still run for another connection: ends with ABORTED. 0:
  // none.
  RequestId replaces;
};

}  // namespace tutti::coordinator
