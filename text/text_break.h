// A place in a prompt where text ends and other text begins.
#pragma once

#include <string_view>

#include "base/ids.h"
#include "text/added_tokens.h"

namespace tutti::text {

// Some models were trained on prompts whose parts were tokenized one by one: ChatGLM3 and the
// original Qwen encode a message's head and its content apart, so that no token spans both. Their
// built-in templates write this where one part ends. It is matched like a special token, never in
// a user's text, and gives no id.
inline constexpr std::string_view kTextBreak = "<|text_break|>";
inline constexpr TokenId kTextBreakId = -1;

inline AddedToken TextBreak() {
  return {.content = std::string(kTextBreak), .id = kTextBreakId, .special = true};
}

}  // namespace tutti::text
