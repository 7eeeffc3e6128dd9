// tokenizer.json, and vocab.json with merges.txt: the files of HuggingFace tokenizers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

// As Qwen2Tokenizer reads them: the split pattern of Qwen2, normalization to NFC.
//
// Errors: InvalidArgument naming file and line or token.
absl::StatusOr<TokenizerSpec> ParseVocabAndMerges(std::string_view vocab_json,
                                                  std::string_view merges_txt);

// Adds an element of added_tokens; or of added_tokens_decoder, where the id is the key.
// Errors: InvalidArgument naming the field below `path`.
absl::Status ReadAddedToken(const nlohmann::json& value, const std::string& path,
                            std::optional<int64_t> id, TokenizerSpec* spec);

}  // namespace tutti::text
