// Tokens that a model's folder describes beside its vocabulary, in the places where transformers
// looks for them.
//
// Threads: pure functions, but for the reading of files.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// Adds what the vocabulary's own file has not:
//
//   added_tokens_decoder of tokenizer_config.json; where it has none, added_tokens.json, as older
//   versions of transformers wrote it, whose tokens are special where tokenizer_config.json or
//   special_tokens_map.json give them a part;
//   eos_token of tokenizer_config.json or special_tokens_map.json as an end of the model's turn.
//
// A token that contradicts the vocabulary (its id is another's, or its text has another id) is left
// out where `vocabulary_decides`: files that were copied along from another model have them.
//
// Errors: InvalidArgument naming file and field.
absl::Status AddDescribedTokens(const std::filesystem::path& model_dir,
                                const nlohmann::json& tokenizer_config, bool vocabulary_decides,
                                TokenizerSpec* spec);

}  // namespace tutti::text
