#include "model/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

namespace fs = std::filesystem;

// Files of a folder that are looked at for a better one; a hub's cache has a few snapshots.
constexpr int kEntriesMax = 1000;

absl::Status Invalid(const std::string& given, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("\"", absl::Utf8SafeCEscape(given), "\" ", what));
}

bool HasConfig(const fs::path& folder) { return text::IsThere(folder / "config.json"); }

bool IsLfsPointer(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(40, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return absl::StartsWith(begin, "version https://git-lfs");
}

// The first folder in `folder` that has a config.json: of a hub's cache, below snapshots/.
std::optional<fs::path> FindInside(const fs::path& folder) {
  for (const fs::path& at : {folder / "snapshots", folder}) {
    std::error_code error;
    std::optional<fs::path> first;
    int entries = 0;
    for (fs::directory_iterator entry(at, error), end; !error && entry != end;
         entry.increment(error)) {
      if (++entries > kEntriesMax) break;
      if (!HasConfig(entry->path())) continue;
      if (!first.has_value() || entry->path() < *first) first = entry->path();
    }
    if (first.has_value()) return first;
  }
  return std::nullopt;
}

absl::Status NotThere(const std::string& given) {
  if (text::IsThere(given)) {
    std::error_code error;
    return Invalid(given, absl::StrCat("is a link to ", fs::read_symlink(given, error).string(),
                                       ", which is not there"));
  }
  if (absl::StrContains(given, "://")) {
    return Invalid(given,
                   "is an address of the web, and Tutti downloads nothing: fetch the model first, "
                   "and give its folder");
  }
  if (absl::StartsWith(given, "~")) {
    return Invalid(given,
                   "is no folder: a shell takes ~ for your home only where a word begins with it; "
                   "write --model ~/…, with a space before it");
  }
  if (!IsHubName(given)) {
    std::error_code error;
    const bool is_relative = !absl::StartsWith(given, "/");
    return Invalid(
        given,
        absl::StrCat("is no folder: there is nothing of that name",
                     is_relative ? absl::StrCat(" in ", fs::current_path(error).string()) : "",
                     "; give that of a HuggingFace checkpoint"));
  }
  const std::string name = given.substr(given.find('/') + 1);
  return Invalid(given,
                 absl::StrCat("is no folder here, and Tutti downloads nothing: fetch the "
                              "model first (hf download ",
                              given, " --local-dir ", name, "), and give its folder, ", name));
}

absl::Status IsFile(const std::string& given) {
  const fs::path parent = fs::path(given).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (absl::EndsWithIgnoreCase(given, ".gguf")) {
    return Invalid(given,
                   "is a GGUF file, which Tutti does not read; give the folder of the model as "
                   "safetensors");
  }
  return Invalid(given, absl::StrCat("is a file; give the folder of the model, ", folder));
}

}  // namespace

bool IsHubName(const std::string& given) {
  const size_t slash = given.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == given.size()) return false;
  if (given.find('/', slash + 1) != std::string::npos || given[0] == '.') return false;
  return std::all_of(given.begin(), given.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
           c == '/';
  });
}

absl::Status CheckModelFolder(const std::string& given) {
  if (given.empty()) {
    return absl::InvalidArgumentError("\"\" is no folder; give that of a HuggingFace checkpoint");
  }
  std::error_code error;
  const fs::file_status status = fs::status(given, error);
  if (status.type() == fs::file_type::not_found) return NotThere(given);
  if (status.type() == fs::file_type::none) return Invalid(given, error.message());
  if (!fs::is_directory(status)) return IsFile(given);
  if (IsLfsPointer(given + "/config.json")) {
    return Invalid(given,
                   "holds pointers of Git LFS, not the files they stand for; fetch those (git "
                   "lfs pull)");
  }
  if (HasConfig(given)) return absl::OkStatus();
  fs::directory_iterator entries(given, error);
  if (error) {
    return Invalid(given, absl::StrCat("cannot be read: ", error.message(),
                                       "; give this user leave to read it"));
  }
  if (entries == fs::directory_iterator())
    return Invalid(given, "is an empty folder; give that of a HuggingFace checkpoint");
  std::string meant;
  if (const auto inside = FindInside(given)) meant = absl::StrCat("; perhaps ", inside->string());
  return Invalid(given, absl::StrCat("has no config.json, so it is no checkpoint", meant));
}

}  // namespace tutti::model
