// The texts of a model's tokens, as workers that make masks of grammars are told them.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "proto/peer_messages.h"
#include "text/tokenizer.h"

namespace tutti::coordinator {

// Of ids below `size`: the bytes that they add to an output's text, and the spelling of special
// tokens. Null: it is longer than a link takes.
//
//   end_ids  that end an output, unless a request says otherwise
std::shared_ptr<const v1::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer,
                                                   std::span<const TokenId> end_ids, int64_t size);

}  // namespace tutti::coordinator
