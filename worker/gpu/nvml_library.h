// NVML, the driver's library for looking at GPUs, opened when it is first needed: most machines
// have none, and nothing but figures for people depends on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::worker {

// The GPU, in the words of CUDA; see kernels::Gpu.
struct GpuIdentity {
  std::string id;    // "GPU-<uuid>"
  std::string bus;   // of PCI; "": not known
  std::string name;  // the maker's
};

struct GpuProcess {
  int64_t pid = 0;
  std::string name;  // "": the driver does not say
  int64_t bytes = 0;
};

// Checked: no number is out of its range, and texts are printable ASCII.
struct GpuFigures {
  int64_t total_bytes = 0;  // 0: the driver does not say, nor what is used, nor by whom
  int64_t used_bytes = 0;   // at most total_bytes; the driver's own part is left out if it says it
  // Processes that compute, the largest first; nothing: the driver does not say.
  std::optional<std::vector<GpuProcess>> processes;
  std::optional<double> busy_share, power_watts, power_limit_watts, temperature_celsius;
};

// Thread: one at a time. Every call may take as long as the driver likes, without end if it hangs.
class NvmlLibrary {
 public:
  struct Functions;
  using Device = void*;

  // `path`: the name given to the dynamic linker. UNAVAILABLE: it cannot be opened, or finds no
  // driver. FAILED_PRECONDITION: a function is missing without which nothing can be said.
  static absl::StatusOr<std::unique_ptr<NvmlLibrary>> Open(const std::string& path);
  ~NvmlLibrary();

  // The device by its id, as a GPU or a part of one (MIG), or by its place on the bus. NOT_FOUND.
  absl::StatusOr<Device> Find(const GpuIdentity& gpu) const;
  // UNAVAILABLE: the driver's error. INTERNAL: numbers that cannot be.
  absl::StatusOr<GpuFigures> Read(Device device) const;

 private:
  explicit NvmlLibrary(std::unique_ptr<Functions> functions);
  absl::Status ReadMemory(Device device, GpuFigures* figures) const;
  void ReadProcesses(Device device, GpuFigures* figures) const;
  void ReadState(Device device, GpuFigures* figures) const;

  const std::unique_ptr<Functions> nvml_;
};

// TUTTI_NVML_LIBRARY, or the name the driver installs it under.
std::string NvmlLibraryPath();

}  // namespace tutti::worker
