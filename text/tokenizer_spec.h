// The contents of the files of a tokenizer, before it is checked as a whole and built.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  // Ranks in place of `merges`: [vocabulary] which token is made first (merge_rules.h).
  std::vector<uint32_t> ranks;
  bool whole_words_first = false;
  std::vector<AddedToken> added_tokens;
  TextNormalizer::Options normalization;
  std::vector<std::string> split_patterns;
  bool split_at_spaces = false;        // in place of patterns: before every space
  std::vector<TokenId> prompt_prefix;  // before a text that is a whole prompt
  std::vector<TokenId> end_of_turn;    // tokens that end the model's turn in a conversation
  std::string file;                    // names the vocabulary's file in errors
};

}  // namespace tutti::text
