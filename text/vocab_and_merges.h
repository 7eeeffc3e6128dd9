// vocab.json with merges.txt: the older pair of files of HuggingFace tokenizers.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// Files as Qwen2Tokenizer reads them: the split pattern of Qwen2, normalization to NFC.
//
// Errors: InvalidArgument naming file and line or token.
absl::StatusOr<TokenizerSpec> ParseVocabAndMerges(std::string_view vocab_json,
                                                  std::string_view merges_txt);

}  // namespace tutti::text
