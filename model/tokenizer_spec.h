// What the files of a tokenizer say, before it is checked as a whole and built.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/added_tokens.h"

namespace tutti {

struct TokenizerSpec {
  // Tokens and pairs as the files spell them (byte_alphabet.h).
  std::vector<std::pair<std::string, int64_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<std::string> split_patterns;
  bool normalize_nfc = false;
  bool whole_words_first = false;
  std::string file;  // names the vocabulary's file in errors
};

// Reads tokenizer.json, or else vocab.json, merges.txt and (where it exists) tokenizer_config.json.
// Whatever in them changes how text is encoded and is not known here is refused.
//
// Errors: NotFound when there is neither; InvalidArgument naming file and field.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const std::filesystem::path& model_dir);

// The parts of it, from text.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view text);
absl::StatusOr<TokenizerSpec> ParseVocabAndMerges(std::string_view vocab_json,
                                                  std::string_view merges_txt);

}  // namespace tutti
