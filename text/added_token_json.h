// An added token as tokenizer.json and tokenizer_config.json describe it.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// Adds an element of added_tokens; or of added_tokens_decoder, where the id is the key.
// Errors: InvalidArgument naming the field below `path`.
absl::Status ReadAddedToken(const nlohmann::json& value, const std::string& path,
                            std::optional<int64_t> id, TokenizerSpec* spec);

}  // namespace tutti::text
