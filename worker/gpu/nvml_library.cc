#include "worker/gpu/nvml_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/gpu_reading.h"
#include "worker/gpu/nvml_interface.h"

namespace tutti::worker {

struct NvmlLibrary::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*by_id)(const char*, Device*) = nullptr;
  int (*memory)(Device, Nvml::Memory*) = nullptr;
  // Null where the driver is older.
  int (*by_bus)(const char*, Device*) = nullptr;
  int (*memory_v2)(Device, Nvml::MemoryV2*) = nullptr;
  int (*utilization)(Device, Nvml::Utilization*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;        // mW
  int (*power_limit)(Device, unsigned*) = nullptr;  // mW
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*processes)(Device, unsigned*, Nvml::ProcessInfo*) = nullptr;
  int (*process_name)(unsigned, char*, unsigned) = nullptr;
};

namespace {

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::Status FindFunctions(void* library, const std::string& path, NvmlLibrary::Functions* nvml) {
  const auto need = [&](const char* name, auto* function) {
    if (Find(library, name, function)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, " has no function ", name));
  };
  TUTTI_RETURN_IF_ERROR(need("nvmlInit_v2", &nvml->init));
  TUTTI_RETURN_IF_ERROR(need("nvmlShutdown", &nvml->shutdown));
  TUTTI_RETURN_IF_ERROR(need("nvmlErrorString", &nvml->error_string));
  TUTTI_RETURN_IF_ERROR(need("nvmlDeviceGetHandleByUUID", &nvml->by_id));
  TUTTI_RETURN_IF_ERROR(need("nvmlDeviceGetMemoryInfo", &nvml->memory));
  (void)Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->by_bus);
  (void)Find(library, "nvmlDeviceGetMemoryInfo_v2", &nvml->memory_v2);
  (void)Find(library, "nvmlDeviceGetUtilizationRates", &nvml->utilization);
  (void)Find(library, "nvmlDeviceGetPowerUsage", &nvml->power);
  (void)Find(library, "nvmlDeviceGetEnforcedPowerLimit", &nvml->power_limit);
  (void)Find(library, "nvmlDeviceGetTemperature", &nvml->temperature);
  // _v3 had entries of 32 bytes in the drivers 535.43 to 535.86; those of _v2 never changed.
  if (!Find(library, "nvmlDeviceGetComputeRunningProcesses_v2", &nvml->processes)) {
    (void)Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml->processes);
  }
  (void)Find(library, "nvmlSystemGetProcessName", &nvml->process_name);
  return absl::OkStatus();
}

// The last part of the path that `bytes` begin with, as far as a terminal may show it.
std::string ProcessName(const char* text, size_t bytes) {
  std::string_view name(text, strnlen(text, bytes));
  name = name.substr(0, name.find(' '));
  name = name.substr(name.rfind('/') + 1);
  return PrintableOf(name, kGpuProcessNameBytesMax);
}

// Absent unless it is one of the numbers that can be.
std::optional<double> Within(double value, double most) {
  if (value >= 0 && value <= most) return value;
  return std::nullopt;
}

}  // namespace

std::string NvmlLibraryPath() {
  const char* const set = std::getenv("TUTTI_NVML_LIBRARY");
  return set != nullptr && *set != '\0' ? set : "libnvidia-ml.so.1";
}

NvmlLibrary::NvmlLibrary(std::unique_ptr<Functions> functions) : nvml_(std::move(functions)) {}

NvmlLibrary::~NvmlLibrary() { nvml_->shutdown(); }

// Never closed: the driver's libraries may have threads.
absl::StatusOr<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::UnavailableError(absl::StrCat("NVML cannot be opened: ", dlerror(),
                                               "; TUTTI_NVML_LIBRARY may name the file"));
  }
  auto functions = std::make_unique<Functions>();
  TUTTI_RETURN_IF_ERROR(FindFunctions(handle, path, functions.get()));
  if (const int error = functions->init(); error != Nvml::kSuccess) {
    return absl::UnavailableError(
        absl::StrCat("NVML, starting: ", functions->error_string(error), " (", error, ")"));
  }
  return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(std::move(functions)));
}

absl::StatusOr<NvmlLibrary::Device> NvmlLibrary::Find(const GpuIdentity& gpu) const {
  Device device = nullptr;
  int error = nvml_->by_id(gpu.id.c_str(), &device);
  if (error != Nvml::kSuccess && absl::StartsWith(gpu.id, "GPU-")) {
    error = nvml_->by_id(absl::StrCat("MIG-", gpu.id.substr(4)).c_str(), &device);
  }
  if (error != Nvml::kSuccess && nvml_->by_bus != nullptr && !gpu.bus.empty()) {
    error = nvml_->by_bus(gpu.bus.c_str(), &device);
  }
  if (error == Nvml::kSuccess && device != nullptr) return device;
  return absl::NotFoundError(absl::StrCat("NVML, looking for ", gpu.id,
                                          gpu.bus.empty() ? "" : " at ", gpu.bus, ": ",
                                          nvml_->error_string(error), " (", error, ")"));
}

absl::Status NvmlLibrary::ReadMemory(Device device, GpuFigures* figures) const {
  unsigned long long total = 0, used = 0;
  Nvml::MemoryV2 newer = {
      .version = Nvml::kMemoryVersion, .total = 0, .reserved = 0, .free = 0, .used = 0};
  if (nvml_->memory_v2 != nullptr && nvml_->memory_v2(device, &newer) == Nvml::kSuccess) {
    total = newer.total;
    used = newer.used;
  } else {
    Nvml::Memory memory = {};
    const int error = nvml_->memory(device, &memory);
    // As where the GPU's memory is the machine's.
    if (error == Nvml::kNotSupported) return absl::OkStatus();
    if (error != Nvml::kSuccess) {
      return absl::UnavailableError(
          absl::StrCat("NVML, asking for memory: ", nvml_->error_string(error), " (", error, ")"));
    }
    total = memory.total;
    used = memory.used;
  }
  if (total == 0 || total > static_cast<unsigned long long>(kGpuMemoryBytesMax) || used > total) {
    return absl::InternalError(
        absl::StrCat("NVML says that ", used, " of ", total, " bytes are used, which cannot be"));
  }
  figures->total_bytes = static_cast<int64_t>(total);
  figures->used_bytes = static_cast<int64_t>(used);
  return absl::OkStatus();
}

// Processes with more memory than the GPU has, or whose memory is not said, are left out.
void NvmlLibrary::ReadProcesses(Device device, GpuFigures* figures) const {
  if (nvml_->processes == nullptr || figures->total_bytes == 0) return;
  std::vector<Nvml::ProcessInfo> listed(16);
  auto count = static_cast<unsigned>(listed.size());
  int error = nvml_->processes(device, &count, listed.data());
  if (error == Nvml::kInsufficientSize) {
    listed.resize(kGpuProcessesMax);
    count = static_cast<unsigned>(listed.size());
    error = nvml_->processes(device, &count, listed.data());
  }
  if (error != Nvml::kSuccess) return;
  listed.resize(std::min<size_t>(count, listed.size()));
  std::vector<GpuProcess> processes;
  for (const Nvml::ProcessInfo& info : listed) {
    if (info.used_bytes == Nvml::kNotAvailable ||
        info.used_bytes > static_cast<unsigned long long>(figures->total_bytes)) {
      continue;
    }
    GpuProcess process = {.pid = info.pid, .bytes = static_cast<int64_t>(info.used_bytes)};
    char name[256] = {};
    if (nvml_->process_name != nullptr &&
        nvml_->process_name(info.pid, name, sizeof(name) - 1) == Nvml::kSuccess) {
      process.name = ProcessName(name, sizeof(name));
    }
    processes.push_back(std::move(process));
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [](const GpuProcess& a, const GpuProcess& b) { return a.bytes > b.bytes; });
  figures->processes = std::move(processes);
}

void NvmlLibrary::ReadState(Device device, GpuFigures* figures) const {
  if (Nvml::Utilization busy = {};
      nvml_->utilization != nullptr && nvml_->utilization(device, &busy) == Nvml::kSuccess) {
    figures->busy_share = Within(busy.gpu / 100.0, 1);
  }
  unsigned value = 0;
  if (nvml_->power != nullptr && nvml_->power(device, &value) == Nvml::kSuccess) {
    figures->power_watts = Within(value / 1e3, kGpuPowerWattsMax);
  }
  if (nvml_->power_limit != nullptr && nvml_->power_limit(device, &value) == Nvml::kSuccess) {
    figures->power_limit_watts = Within(value / 1e3, kGpuPowerWattsMax);
  }
  if (nvml_->temperature != nullptr &&
      nvml_->temperature(device, Nvml::kCoreTemperature, &value) == Nvml::kSuccess) {
    figures->temperature_celsius = Within(value, kGpuCelsiusMax);
  }
}

absl::StatusOr<GpuFigures> NvmlLibrary::Read(Device device) const {
  GpuFigures figures;
  TUTTI_RETURN_IF_ERROR(ReadMemory(device, &figures));
  ReadProcesses(device, &figures);
  ReadState(device, &figures);
  return figures;
}

}  // namespace tutti::worker
