// Grammars in the simulator: over a small vocabulary, and what they allow, said by a matcher that
// is made anew for every token. The workers' own go on with theirs.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "coordinator/request.h"
#include "proto/peer_messages.h"

namespace tutti::tests {

// Of so many tokens.
std::shared_ptr<const v1::Vocabulary> SimVocabulary(int32_t size);

// Gives some requests a grammar, and the end that it needs.
void DrawSimGrammar(Random* random, coordinator::Request* request);

// The tokens that may come behind an output by the grammar; nothing: there is none.
std::optional<std::vector<TokenId>> SimAllowed(std::span<const TokenId> output,
                                               const v1::SequenceSampling& sampling,
                                               int32_t vocab_size);

}  // namespace tutti::tests
