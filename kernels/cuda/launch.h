// The start of a kernel, as data, and the interface that takes such starts: plain values of the
// host, the same for a GPU and for the emulated one.
//
// Thread: a Launcher is called by the one thread that calls its backend's operators.
#pragma once

#include <cstdint>

namespace tutti::kernels::cuda {

inline constexpr int kWarp = 32;

// A queue of work on one device: a cudaStream_t. The emulator has only one and does everything at
// once.
using Stream = void*;

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
};

// A thread for each element of a matrix, without dividing by its width: x counts rows, y blocks of
// `threads` columns.
inline Grid GridOver(int64_t rows, int64_t cols, int threads) {
  return {rows, (cols + threads - 1) / threads};
}

// One start of a kernel, as data.
struct KernelLaunch {
  const void* kernel = nullptr;  // the function
  // How the emulator calls it; a GPU finds a kernel by its address alone.
  void (*call)(const void* kernel, const void* argument) = nullptr;
  Grid grid;
  int32_t threads = 0;  // of a block
  int32_t shared_bytes = 0;
  const void* argument = nullptr;  // the kernel's struct
  int32_t argument_bytes = 0;
  int32_t early = 0;  // 1: may begin before the launch before it has ended
};

// Takes launches: a device, or a queue in front of one.
class Launcher {
 public:
  // Behind everything before. The argument is copied.
  virtual void Start(const KernelLaunch& launch) = 0;

 protected:
  ~Launcher() = default;
};

}  // namespace tutti::kernels::cuda
