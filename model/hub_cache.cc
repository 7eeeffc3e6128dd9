#include "model/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "model/model_folder.h"

namespace tutti::model {
namespace {

namespace hub_fs = std::filesystem;

constexpr absl::string_view kRepositoryPrefix = "models--";
// References that an error names; a cache has a few.
constexpr size_t kNamedMax = 8;
// A commit is 40 digits; a file of anything longer is no reference.
constexpr int kReferenceBytesMax = 128;

// A variable of the environment, with the home for a leading "~".
std::string Variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return "";
  const char* const home = std::getenv("HOME");
  if (absl::StartsWith(text, "~/") && home != nullptr) return absl::StrCat(home, text + 1);
  return text;
}

hub_fs::path CacheFolder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string set = Variable(name); !set.empty()) return set;
  }
  if (const std::string home = Variable("HF_HOME"); !home.empty()) {
    return hub_fs::path(home) / "hub";
  }
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return hub_fs::path(cache) / "huggingface" / "hub";
  }
  return hub_fs::path(Variable("HOME")) / ".cache" / "huggingface" / "hub";
}

// Of letters, digits, ".", "_", "-" and, between words, "/"; so that no path leaves its folder.
bool IsReference(absl::string_view text) {
  if (text.empty() || text.size() > kReferenceBytesMax) return false;
  for (const absl::string_view word : absl::StrSplit(text, '/')) {
    if (word.empty() || word == "." || word == "..") return false;
    if (!std::all_of(word.begin(), word.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                 c == '-';
        })) {
      return false;
    }
  }
  return true;
}

// The commit that a branch or tag of the cache stands for; "" for none.
std::string CommitOf(const hub_fs::path& repository, const std::string& reference) {
  std::ifstream file(repository / "refs" / reference, std::ios::binary);
  std::string text(kReferenceBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  const std::string commit(absl::StripAsciiWhitespace(text));
  return absl::StrContains(commit, '/') || !IsReference(commit) ? "" : commit;
}

std::vector<std::string> KnownReferences(const hub_fs::path& repository) {
  std::vector<std::string> names;
  const hub_fs::path refs = repository / "refs";
  std::error_code error;
  for (hub_fs::recursive_directory_iterator entry(refs, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    names.push_back(entry->path().lexically_relative(refs).string());
    if (names.size() == kNamedMax) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status NotFetched(const std::string& given, const std::string& revision,
                        absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": \"", given, "\" ", what,
                   ", and Tutti downloads nothing. This fetches it: hf download ", given,
                   revision.empty() ? "" : absl::StrCat(" --revision ", revision)));
}

absl::StatusOr<std::string> FindInCache(const std::string& given, const std::string& revision,
                                        absl::string_view flag) {
  const hub_fs::path cache = CacheFolder();
  const hub_fs::path repository =
      cache / absl::StrCat(kRepositoryPrefix, absl::StrReplaceAll(given, {{"/", "--"}}));
  std::error_code error;
  if (!hub_fs::is_directory(repository, error)) {
    return NotFetched(
        given, revision, flag,
        absl::StrCat("is no folder here and not in the hub's cache (", cache.string(), ")"));
  }
  const std::string wanted = revision.empty() ? "main" : revision;
  std::string commit = CommitOf(repository, wanted);
  if (commit.empty() && !absl::StrContains(wanted, '/')) commit = wanted;
  const hub_fs::path snapshot = repository / "snapshots" / commit;
  if (commit.empty() || !hub_fs::is_directory(snapshot, error)) {
    const std::vector<std::string> known = KnownReferences(repository);
    return NotFetched(
        given, revision, flag,
        absl::StrCat(
            "is in the hub's cache without ", wanted,
            known.empty() ? "" : absl::StrCat(" (with ", absl::StrJoin(known, ", "), ")")));
  }
  if (!CheckModelFolder(snapshot.string()).ok()) {
    return NotFetched(given, revision, flag,
                      absl::StrCat("is only in part in the hub's cache: ", snapshot.string(),
                                   " has no config.json"));
  }
  return snapshot.string();
}

}  // namespace

absl::StatusOr<std::string> FindModel(const std::string& given, const std::string& revision,
                                      absl::string_view flag) {
  if (!revision.empty() && !IsReference(revision)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--revision: \"", absl::Utf8SafeCEscape(revision), "\" is no branch, tag or commit"));
  }
  std::error_code error;
  if (IsHubName(given) && !hub_fs::exists(hub_fs::symlink_status(given, error))) {
    return FindInCache(given, revision, flag);
  }
  TUTTI_RETURN_IF_ERROR(Annotate(CheckModelFolder(given), std::string(flag)));
  if (!revision.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--revision: ", flag, " \"", absl::Utf8SafeCEscape(given),
                     "\" is a folder; a revision is for a model that is named as on the hub"));
  }
  return given;
}

std::string NameOfModel(const std::string& folder) {
  const hub_fs::path clean = hub_fs::absolute(folder).lexically_normal();
  const hub_fs::path path = clean.has_filename() ? clean : clean.parent_path();
  const std::string repository = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() == "snapshots" &&
      absl::StartsWith(repository, kRepositoryPrefix)) {
    return absl::StrReplaceAll(repository.substr(kRepositoryPrefix.size()), {{"--", "/"}});
  }
  return path.filename().string();
}

}  // namespace tutti::model
