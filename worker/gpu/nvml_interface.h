// NVML's C interface, as far as it is called: written down here because most machines that build
// have no header of it. tests/headers holds it against the maker's. Enumerations are ints.
#pragma once

namespace tutti::worker {

struct Nvml {
  static constexpr int kSuccess = 0;
  static constexpr int kNotSupported = 3;
  static constexpr int kNotFound = 6;
  static constexpr int kInsufficientSize = 7;
  static constexpr int kLost = 15;
  static constexpr int kCoreTemperature = 0;
  static constexpr unsigned long long kNotAvailable = ~0ULL;

  struct Memory {
    unsigned long long total, free, used;  // bytes
  };
  struct MemoryV2 {
    unsigned version;  // kMemoryVersion
    unsigned long long total, reserved, free, used;
  };
  static constexpr unsigned kMemoryVersion = static_cast<unsigned>(sizeof(MemoryV2)) | 2U << 24;
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  // The layout of nvmlDeviceGetComputeRunningProcesses_v2.
  struct ProcessInfo {
    unsigned pid;
    unsigned long long used_bytes;  // or kNotAvailable
    unsigned gpu_instance, compute_instance;
  };
};

}  // namespace tutti::worker
