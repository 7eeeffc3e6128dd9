// Whether the output of a prompt begins inside of a reasoning that the prompt has opened.
//
// Pure.  Thread: any.
#pragma once

#include <span>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace tutti::coordinator {

// Behind the last special token of the prompt, where the turn of the model begins, stands <think>
// and no </think> behind it: whatever the template's source, the request's fields or a message that
// is continued have made of it. Only the last kTurnTokensMax tokens are looked at.
bool EndsInReasoning(std::span<const TokenId> prompt, const text::Tokenizer& tokenizer);

}  // namespace tutti::coordinator
