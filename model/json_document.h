// JSON from outside: parsed without exceptions, with bounded depth, and with every key at most
// once.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::model {

// INVALID_ARGUMENT with `file_name`, the byte where reading stopped and why: not JSON, an object
// with a key twice (readers disagree on which counts), nesting beyond kJsonDepthMax, text longer
// than `bytes_max`. NaN and Infinity, which Python's json writes, are read as null.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view file_name,
                                         int64_t bytes_max);

// Text from a file, for an error: in quotes, control characters replaced, cut after some 100 bytes
// at a character's end.
std::string Quoted(std::string_view text);

}  // namespace tutti::model
