// What a prompt says of the model's reasoning: whether the output begins inside of one that the
// prompt has opened, and what may come before an answer by a grammar.
//
// Pure.  Thread: any.
#pragma once

#include <span>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

enum class PromptReasoning { kNone, kOpened, kClosed };

// Behind the last special token of the prompt, where the turn of the model begins: no <think>; one
// and no </think> behind it; or both: whatever the template's source, the request's fields or a
// message that is continued have made of it. Only the last kTurnTokensMax tokens are looked at.
PromptReasoning ReasoningOf(std::span<const TokenId> prompt, const text::Tokenizer& tokenizer);

// What may come before the text of a chat's answer: what is left of the reasoning that the prompt
// has opened; where it has none and the template knows of it, a whole one; otherwise nothing.
v1::GrammarPreface PrefaceOf(PromptReasoning reasoning, std::string_view template_source);

}  // namespace tutti::coordinator
