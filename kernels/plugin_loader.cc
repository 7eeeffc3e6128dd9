#include "kernels/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/plugin_abi.h"

namespace tutti::kernels {
namespace {

// As the kernel writes it in sysfs.
constexpr std::string_view kNvidiaVendor = "0x10de";

absl::StatusOr<std::string> FindPlugin(const std::string& file,
                                       const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const std::string path = absl::StrCat(directory, "/", file);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat("no ", file, " in ", absl::StrJoin(directories, ", "),
                                          "; for GPUs it is needed there, or in the folder that "
                                          "TUTTI_PLUGIN_DIR names: the wheel tutti_server_cuda and "
                                          "the package tutti-cuda have it, or a build with nvcc"));
}

absl::StatusOr<void*> OpenSymbol(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open plug-in ", path, ": ", dlerror()));
  }
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    dlclose(library);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has no symbol ", name, ": it is no plug-in of this build of tutti"));
  }
  return symbol;
}

// A text of the other side, which may not have ended it.
template <size_t kBytes>
std::string TextOf(const char (&text)[kBytes]) {
  return std::string(text, strnlen(text, kBytes));
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
  TUTTI_ASSIGN_OR_RETURN(void* const symbol, OpenSymbol(path, kPluginSymbol));
  const auto open = reinterpret_cast<PluginFunction>(symbol);
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

void LoadGpuKernelsAtOnce(std::string_view numerics_class) {
  if (!numerics_class.ends_with("-cublas")) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

bool MayHaveGpu(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const char* const node : {"dev/nvidiactl", "dev/nvidia0", "dev/dxg", "dev/nvhost-gpu",
                                 "dev/nvgpu", "proc/driver/nvidia"}) {
    if (fs::exists(fs::path(root) / node, error)) return true;
  }
  const fs::path bus = fs::path(root) / "sys/bus/pci/devices";
  const auto first_word = [](const fs::path& file) {
    std::string word;
    std::ifstream(file) >> word;
    return word;
  };
  for (fs::directory_iterator at(bus, error), end; !error && at != end; at.increment(error)) {
    // Of a display controller the class begins with 03.
    if (first_word(at->path() / "vendor") == kNvidiaVendor &&
        first_word(at->path() / "class").starts_with("0x03")) {
      return true;
    }
  }
  return false;
}

GpuList ListGpus(const std::string& file, const std::vector<std::string>& directories) {
  const auto path = FindPlugin(file, directories);
  if (!path.ok()) {
    return {.problem = std::string(path.status().message()), .no_gpu = !MayHaveGpu()};
  }
  const auto symbol = OpenSymbol(*path, kPluginDevicesSymbol);
  if (!symbol.ok()) return {.problem = std::string(symbol.status().message())};
  const PluginIdentity host = ThisSide();
  const auto answer = std::make_unique<PluginDevices>();
  reinterpret_cast<PluginDevicesFunction> (*symbol)(&host, answer.get());
  if (const std::string why = PluginMismatch(host, answer->plugin); !why.empty()) {
    return {.problem = absl::StrCat("plug-in ", *path, ": ", why)};
  }
  GpuList list = {.problem = TextOf(answer->problem)};
  const int32_t count = std::clamp(answer->count, 0, kPluginDevicesMax);
  for (const PluginDevice& device : std::span(answer->devices, static_cast<size_t>(count))) {
    list.gpus.push_back({.index = device.index,
                         .id = TextOf(device.id),
                         .bus = TextOf(device.bus),
                         .name = TextOf(device.name),
                         .memory_bytes = device.memory_bytes,
                         .problem = TextOf(device.problem)});
  }
  return list;
}

}  // namespace tutti::kernels
