// Reading the small files that describe a tokenizer or a template.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace tutti::text {

// Whether there is a file, or a link: a link to nothing is there, and reading it says so.
bool IsThere(const std::filesystem::path& path);

// The whole file. Errors, each naming the file: NotFound, InvalidArgument when it has more than
// `bytes_max` bytes, Unavailable when reading fails.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, size_t bytes_max);

// The file as a JSON value. Errors: as above, and InvalidArgument when it is not JSON or nests
// deeper than kTextJsonDepthMax.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::filesystem::path& path, size_t bytes_max);

}  // namespace tutti::text
