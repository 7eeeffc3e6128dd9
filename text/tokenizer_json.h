// tokenizer.json: the file of HuggingFace tokenizers.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// Two kinds of byte pair encoding: with a ByteLevel pre-tokenizer, as in Qwen2 and Llama 3; and
// with byte_fallback, as transformers writes sentencepiece models such as Llama 2's, where either
// the normalizer or a Metaspace pre-tokenizer puts U+2581 for spaces.
//
// Errors: InvalidArgument naming the field.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view text);

}  // namespace tutti::text
