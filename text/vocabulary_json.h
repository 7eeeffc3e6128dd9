// Parses the JSON of tokenizers, in which two members are huge and the rest is small.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti::text {

struct VocabularyJson {
  std::vector<std::pair<std::string, int64_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  bool has_vocabulary = false;  // there was an object in its place
  bool has_merges = false;      // there was a list in their place
};

// tokenizer.json: keeps model.vocab and model.merges ("a b" or ["a", "b"]) out of the document
// while it is parsed, so that hundreds of thousands of tokens never become JSON values. `rest` gets
// everything else.
//
// Errors: InvalidArgument with the byte offset or the name of what is wrong.
absl::StatusOr<VocabularyJson> ParseVocabularyJson(std::string_view text, nlohmann::json* rest);

// vocab.json: one object, token -> id.
absl::StatusOr<VocabularyJson> ParseVocabJson(std::string_view text);

}  // namespace tutti::text
