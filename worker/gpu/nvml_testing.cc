// libnvidia-ml.so.1 in the hands of tests. What it says stands in the file that NVML_TESTING names,
// read at each call: "values", "no-processes", "error", "lost", "no-memory", "garbage",
// "garbage-but-memory", or "hang", which no function returns from as long as it stands there. It
// knows the GPUs that emulated_plugin.cc lists, one part of a GPU (MIG), and one by its place on
// the bus. Its list of processes is that of the drivers 535.43 to 535.86.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "worker/gpu/nvml_interface.h"

namespace tutti::worker {
namespace {

constexpr unsigned long long kGiB = 1ULL << 30;

std::string Mode() {
  const char* const path = std::getenv("NVML_TESTING");
  std::string mode;
  do {
    if (!mode.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream file(path == nullptr ? "" : path);
    if (!(file >> mode)) mode = "values";
  } while (mode == "hang");
  return mode;
}

[[maybe_unused]] bool Garbage() { return Mode().starts_with("garbage"); }

int Found(bool known, void** device) {
  static char gpu;
  if (Mode() == "lost") return Nvml::kLost;
  *device = known ? &gpu : nullptr;
  return known ? Nvml::kSuccess : Nvml::kNotFound;
}

[[maybe_unused]] int Say(unsigned value, unsigned* to) {
  *to = Garbage() ? ~0U : value;
  return Nvml::kSuccess;
}

struct ProcessInfo535 {
  Nvml::ProcessInfo older;
  unsigned long long protected_bytes;
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  Mode();
  return Nvml::kSuccess;
}
int nvmlShutdown() { return Nvml::kSuccess; }
const char* nvmlErrorString(int error) {
  return error == Nvml::kLost       ? "GPU is lost"
         : error == Nvml::kNotFound ? "Not Found"
                                    : "Unknown Error";
}
int nvmlDeviceGetHandleByUUID(const char* id, void** device) {
  const std::string text = id;
  return Found(text.starts_with("EMULATED-") || text == "GPU-whole" || text == "MIG-part", device);
}

#ifndef WITHOUT_MEMORY
int nvmlDeviceGetMemoryInfo(void*, Nvml::Memory* memory) {
  const std::string mode = Mode();
  if (mode == "error") return 999;
  if (mode == "no-memory") return Nvml::kNotSupported;
  *memory = {.total = 80 * kGiB, .free = 10 * kGiB, .used = 70 * kGiB};
  if (mode == "garbage") memory->used = ~0ULL;
  return Nvml::kSuccess;
}
#endif

#ifndef WITHOUT_NEWER_FUNCTIONS
int nvmlDeviceGetMemoryInfo_v2(void*, Nvml::MemoryV2* memory) {
  if (memory->version != (sizeof(Nvml::MemoryV2) | 2U << 24)) return 2;  // an argument is invalid
  const std::string mode = Mode();
  if (mode == "error" || mode == "garbage" || mode == "no-memory") return Nvml::kNotSupported;
  memory->total = 80 * kGiB;
  memory->reserved = 1 * kGiB;
  memory->used = 69 * kGiB;
  memory->free = 10 * kGiB;
  return Nvml::kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return Found(std::strcmp(bus, "0000:3b:00.0") == 0, device);
}
int nvmlDeviceGetUtilizationRates(void*, Nvml::Utilization* utilization) {
  *utilization = {.gpu = Garbage() ? 4000U : 37U, .memory = 12};
  return Nvml::kSuccess;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return Say(412500, milliwatts); }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) { return Say(700000, milliwatts); }
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  return sensor == 0 ? Say(61, celsius) : Nvml::kNotSupported;
}
// More than the caller's first guess has room for.
int nvmlDeviceGetComputeRunningProcesses_v2(void*, unsigned* count, Nvml::ProcessInfo* processes) {
  constexpr unsigned kListed = 20;
  if (Mode() == "no-processes") return Nvml::kNotSupported;
  if (*count < kListed) {
    *count = kListed;
    return Nvml::kInsufficientSize;
  }
  for (unsigned i = 0; i < kListed; ++i) processes[i] = {1000 + i, kGiB / 1024, ~0U, ~0U};
  processes[3] = {static_cast<unsigned>(getpid()), 8 * kGiB, ~0U, ~0U};
  processes[7] = {123, 59 * kGiB, ~0U, ~0U};
  processes[8] = {124, ~0ULL, ~0U, ~0U};  // not available
  *count = Garbage() ? ~0U : kListed;
  return Nvml::kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo535* processes) {
  for (unsigned i = 0; i < *count / 2; ++i) processes[i] = {{2000 + i, kGiB, ~0U, ~0U}, kGiB};
  *count /= 2;
  return Nvml::kSuccess;
}
int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned bytes) {
  if (Garbage()) {
    std::memset(name, 0xff, bytes);
    std::memcpy(name, "\x1b[2J\n", 5);
    return Nvml::kSuccess;
  }
  if (pid != 123) return Nvml::kNotFound;
  std::strncpy(name, "/usr/bin/python3 -m server", bytes);
  return Nvml::kSuccess;
}
#endif
}

}  // namespace tutti::worker
