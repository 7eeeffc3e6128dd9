// The files of a model's tokenizer: the kind they make, and their contents together.
//
// Threads: pure functions, but for the reading of files.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// The kind of tokenizer that the files of a model make.
enum class TokenizerKind {
  kTokenizerJson,   // tokenizer.json
  kSentencepiece,   // tokenizer.model
  kChatGlm,         // tokenizer.model, and tokenizer_class ChatGLMTokenizer
  kTiktoken,        // qwen.tiktoken
  kVocabAndMerges,  // vocab.json and merges.txt
};

// The first of these, in this order, whose file is there.
//
// Errors: NotFound when none is; InvalidArgument for a tokenizer_config.json that is no object.
absl::StatusOr<TokenizerKind> FindTokenizerKind(const std::filesystem::path& model_dir);

// Reads the files of the kind that FindTokenizerKind finds, and the tokens that others describe
// (described_tokens.h). Settings that change how text is
// encoded and are not known here are refused.
//
// Errors: as FindTokenizerKind; InvalidArgument naming file and field.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const std::filesystem::path& model_dir);

}  // namespace tutti::text
