// What the text of an answer may be: from a client's message to what workers sample by.
//
// Thread: any.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "coordinator/service/known_grammars.h"
#include "coordinator/service/served_model.h"
#include "grammar/limits.h"
#include "proto/peer_messages.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// A grammar that has been made once, so that whoever makes it again can.
struct BuiltGrammar {
  v1::SequenceGrammar source;
  std::string digest;  // equal for equal grammars
};

// What may be taken for one.
struct GrammarMeans {
  KnownGrammars* known = nullptr;  // null: none is remembered
  int64_t work_max = grammar::kBuildWorkMax;
};

// The checks that cost nothing. INVALID_ARGUMENT names the field; FAILED_PRECONDITION: the model
// has no texts of tokens, or no token that ends an answer.
absl::Status CheckGrammar(const v1::Grammar& grammar, const ServedModel& model);

// Makes the grammar of an answer to this prompt, in at most some 100 ms, unless it is known. Where
// the chat's template has the model think first, that comes before it. INVALID_ARGUMENT: what of it
// is not served, by keyword and place, and what is beyond its limits. ABORTED: it takes more work
// than was given.
//
// REQUIRES: CheckGrammar of it is OK
absl::StatusOr<BuiltGrammar> BuildGrammar(const v1::GenerateRequest& message,
                                          std::span<const TokenId> prompt, const ServedModel& model,
                                          const GrammarMeans& means = {});

}  // namespace tutti::coordinator
