#include "client/local_paths.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tutti::client {
namespace {

// Longest path of a socket in the private folder: sun_path has 108 bytes, of which
// "/coordinator.sock" and the ending zero need 18.
constexpr size_t kPrivateDirBytesMax = 90;

}  // namespace

absl::StatusOr<std::string> ProgramBeside(absl::string_view name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / std::string(name)).string();
  if (error || access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no program ", path, "; it is installed beside tutti"));
  }
  return path;
}

absl::StatusOr<std::string> MakePrivateDir() {
  std::string why = "no folder to try";
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const char* base = *name == '\0' ? "/tmp" : std::getenv(name);
    if (base == nullptr || *base == '\0') continue;
    std::string path = absl::StrCat(base, "/tutti-XXXXXX");
    if (path.size() > kPrivateDirBytesMax) {
      why = absl::StrCat(base, " is too long a path for sockets");
      continue;
    }
    if (mkdtemp(path.data()) != nullptr) return path;  // mode 0700
    why = absl::StrCat(base, ": ", std::strerror(errno));
  }
  return absl::UnavailableError(absl::StrCat("cannot make a private folder: ", why));
}

}  // namespace tutti::client
