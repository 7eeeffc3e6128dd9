// Translates the regular expression of a tokenizer into the dialect of PCRE2.
//
// HuggingFace tokenizers evaluates its patterns with Oniguruma (Ruby syntax). The two dialects
// agree on everything the published patterns use except what \s means, and disagree quietly on much
// else. So this accepts the constructs known to mean the same, rewrites \s and \S, and refuses all
// others by name.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tutti::text {

// The split of Qwen2, 2.5 and 3, used where the files do not state one (vocab.json + merges.txt).
inline constexpr std::string_view kQwen2SplitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The split a ByteLevel pre-tokenizer applies by itself (GPT-2).
inline constexpr std::string_view kByteLevelSplitPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Errors: InvalidArgument naming the construct and its offset.
absl::StatusOr<std::string> TranslateSplitPattern(std::string_view pattern);

}  // namespace tutti::text
