// Whether a model's template and its tokenizer belong together: looked at once, at start, because a
// checkpoint in which they do not answers badly without any error.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tutti::text {

// What is wrong, in words for the operator, and what follows; nothing where all is well, or where
// the template takes no plain conversation.
//
//   markers   what the template writes between <| and |> is one token each
//   ends      the special token that it writes behind an answer is among `ends`, which end one
std::vector<std::string> TemplateFaults(const ChatTemplate& chat_template,
                                        const Tokenizer& tokenizer, std::span<const TokenId> ends);

}  // namespace tutti::text
