// Whether a GPU may serve, by the machine's own account: a pure function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace tutti::kernels::cuda {

// The CUDA runtime's report. Versions are 1000 * major + 10 * minor.
struct DeviceFacts {
  int32_t index = 0;            // the device asked for
  int32_t driver_version = 0;   // 0: no driver on this machine
  int32_t runtime_version = 0;  // of the runtime linked into the plug-in
  int32_t device_count = 0;
  std::string count_error;  // CUDA's message when counting the devices failed
  std::string name;
  int32_t major = 0, minor = 0;  // compute capability
  int32_t multiprocessors = 0;
  int64_t memory_bytes = 0;
  std::array<std::byte, 16> id = {};  // CUDA's UUID
  // The capabilities that the plug-in was built for, as CMake was told: "80,90,90-ptx".
  std::string built_for;
};

// The oldest compute capability with the instructions the kernels are made of: bf16 tensor cores
// and asynchronous copies to shared memory came with 8.0.
inline constexpr int32_t kCapabilityMajorMin = 8;

// Whether code built for these capabilities runs on a GPU of another: machine code within its major
// version, on its minor version or a later one; "N-ptx" on N and every later GPU, which translates
// it.
bool RunsCodeFor(const std::string& built_for, int32_t major, int32_t minor);

// "GPU-" and the id in hexadecimal, as nvidia-smi writes it.
std::string IdText(const std::array<std::byte, 16>& id);

// Machines of one class give the same bits: "cuda-sm90" for capability 9.0. The tensor cores of two
// generations add in different orders, so each is a class of its own.
std::string NumericsClass(const DeviceFacts& facts);

// The class of the same device that multiplies many rows by cuBLASLt: "cuda-sm90-cublas". Not
// exact, so only where it is asked for (docs/decisions/0072).
std::string CublasClass(const std::string& exact_class);

// OK, or why this device cannot be used, with both sides' facts: UNAVAILABLE no driver or no
// device, NOT_FOUND no such device, FAILED_PRECONDITION driver too old, GPU too old, a plug-in
// without code for the GPU, or a `wanted_class` that is neither of the device's ("": the exact
// one).
absl::Status CheckDevice(const DeviceFacts& facts, const std::string& wanted_class);

}  // namespace tutti::kernels::cuda
