#include "kernels/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/plugin_abi.h"

namespace tutti::kernels {
namespace {

absl::StatusOr<std::string> FindPlugin(const std::string& file,
                                       const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const std::string path = absl::StrCat(directory, "/", file);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat("no ", file, " in ", absl::StrJoin(directories, ", "),
                                          "; build it where nvcc is, and put it beside the "
                                          "program or name its folder in TUTTI_PLUGIN_DIR"));
}

absl::StatusOr<PluginFunction> OpenPlugin(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open plug-in ", path, ": ", dlerror()));
  }
  void* const symbol = dlsym(library, kPluginSymbol);
  if (symbol == nullptr) {
    dlclose(library);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has no symbol ", kPluginSymbol, ": it is no plug-in of tutti"));
  }
  return reinterpret_cast<PluginFunction>(symbol);
}

}  // namespace

std::vector<std::string> PluginDirectories() {
  if (const char* set = std::getenv("TUTTI_PLUGIN_DIR"); set != nullptr && *set != '\0') {
    return {set};
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = program.parent_path();
  return {folder.string(), (folder.parent_path() / "lib" / "tutti").string()};
}

absl::StatusOr<std::unique_ptr<Backend>> OpenPluginBackend(
    const std::string& file, const std::vector<std::string>& directories, int32_t device_index,
    const BackendOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::string path, FindPlugin(file, directories));
  TUTTI_ASSIGN_OR_RETURN(const PluginFunction open, OpenPlugin(path));
  const PluginIdentity host = ThisSide();
  const PluginRequest request = {.device_index = device_index, .options = &options};
  PluginAnswer answer;
  open(&host, &request, &answer);
  if (const std::string why = PluginMismatch(host, answer.plugin); !why.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("plug-in ", path, ": ", why));
  }
  if (answer.backend == nullptr) {
    return absl::Status(static_cast<absl::StatusCode>(answer.status_code), answer.message);
  }
  return std::unique_ptr<Backend>(answer.backend);
}

}  // namespace tutti::kernels
