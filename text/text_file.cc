#include "text/text_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/limits.h"

namespace tutti::text {

using nlohmann::json;

bool IsThere(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, size_t bytes_max) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) && IsThere(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": a link to ",
                     std::filesystem::read_symlink(path, error).string(), ", which is not there"));
  }
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path.string(), ": no such file"));
  }
  if (!std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": not a regular file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be opened"));
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::UnavailableError(absl::StrCat(path.string(), ": ", error.message()));
  if (size > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": has ", size, " bytes, at most ", bytes_max));
  }
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (in.gcount() != static_cast<std::streamsize>(size)) {
    return absl::UnavailableError(
        absl::StrCat(path.string(), ": read ", in.gcount(), " of ", size, " bytes"));
  }
  return text;
}

absl::StatusOr<json> ReadJsonFile(const std::filesystem::path& path, size_t bytes_max) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, bytes_max));
  if (const size_t nul = text.find('\0'); nul != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": not valid JSON: a zero byte at ", nul));
  }
  bool too_deep = false;
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    too_deep |= depth > kTextJsonDepthMax;
    return !too_deep;
  };
  json value = json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": nests deeper than ", kTextJsonDepthMax));
  }
  if (value.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": not valid JSON"));
  }
  return value;
}

}  // namespace tutti::text
