// Opens backends that are libraries of their own, and asks them for their devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::kernels {

inline constexpr char kCudaPlugin[] = "libtutti_cuda.so";

// The directories in which a plug-in is looked for, in this order: TUTTI_PLUGIN_DIR alone when it
// is set; else beside the program and in ../lib/tutti from there. Never by a bare name: the dynamic
// linker's search path could hold a foreign library.
std::vector<std::string> PluginDirectories();

// Opens `file` (such as "libtutti_cuda.so") from the first of `directories` that has it and asks it
// for a backend. The library stays open until the process ends.
//
// NOT_FOUND names the places looked at; FAILED_PRECONDITION: a library of another build, or no
// plug-in at all; other errors are the plug-in's own.  Thread: any.
absl::StatusOr<std::unique_ptr<Backend>> OpenPluginBackend(
    const std::string& file, const std::vector<std::string>& directories, int32_t device_index,
    const BackendOptions& options);

// Has CUDA bring all kernels of the plug-in to the GPU when it is opened. Otherwise each comes with
// its first launch: in the middle of serving, when the KV cache may have taken the memory, and
// inside timed code. The driver reads it once, when anything asks for GPUs, so main calls this
// first. A CUDA_MODULE_LOADING that is set already stays. Not for a class that multiplies by
// cuBLASLt, all of whose kernels would come too: room is kept for those that are needed
// (kGpuCublasCodeBytes).
//
// REQUIRES: no other thread, as it writes the environment
void LoadGpuKernelsAtOnce(std::string_view numerics_class);

// A GPU that this process sees.
struct Gpu {
  int32_t index = 0;
  std::string id;    // the same in every process
  std::string bus;   // of PCI, such as "0000:3b:00.0"; "": not known
  std::string name;  // the maker's
  int64_t memory_bytes = 0;
  std::string problem;  // why it cannot serve; "": it can
};

struct GpuList {
  std::vector<Gpu> gpus;  // by index
  std::string problem;    // why there are none
  // The plug-in is missing, and nobody misses it: the system knows of no GPU either.
  bool no_gpu = false;
};

// Whether there is, or may be, a GPU of NVIDIA's: on the PCI bus, or where there is a node of its
// driver, as in a container, under WSL and on boards. `root`: another than "/" in tests.
bool MayHaveGpu(const std::string& root = "/");

// The GPUs, by the plug-in's account; none is opened. A plug-in that cannot be asked is the
// problem.  Thread: any; takes as long as the driver needs to wake up.
GpuList ListGpus(const std::string& file, const std::vector<std::string>& directories);

}  // namespace tutti::kernels
