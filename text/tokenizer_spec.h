// What the files of a tokenizer say, before it is checked as a whole and built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/added_tokens.h"
#include "text/text_normalizer.h"

namespace tutti::text {

// How a vocabulary spells the text of a token.
enum class Spelling {
  kByteAlphabet,  // one visible character for each byte (byte_alphabet.h): GPT-2 and its kin
  kBytes,         // as it is: tiktoken
  kSpaceMark,     // U+2581 for a space, "<0x0A>" for one byte: sentencepiece
};

struct TokenizerSpec {
  Spelling spelling = Spelling::kByteAlphabet;
  std::vector<std::pair<std::string, int64_t>> vocabulary;  // spelled, id
  std::vector<std::pair<std::string, std::string>> merges;  // spelled
  // In place of `merges`: [vocabulary] which token is made first (merge_rules.h).
  std::vector<uint32_t> ranks;
  bool whole_words_first = false;
  std::vector<AddedToken> added_tokens;
  TextNormalizer::Options normalization;
  std::vector<std::string> split_patterns;
  bool split_at_spaces = false;        // in place of patterns: before every space
  std::vector<TokenId> prompt_prefix;  // what stands before a text that is a whole prompt
  std::vector<TokenId> end_of_turn;    // tokens that end the model's turn in a conversation
  std::string file;                    // names the vocabulary's file in errors
};

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

// Reads the files of the kind that FindTokenizerKind finds. Whatever in them changes how text is
// encoded and is not known here is refused.
//
// Errors: as FindTokenizerKind; InvalidArgument naming file and field.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const std::filesystem::path& model_dir);

}  // namespace tutti::text
