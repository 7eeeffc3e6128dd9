// Memory and the one queue of a device: all that CudaBackend needs of CUDA besides kernels. The
// real one is runtime_cuda.cc; tests use the emulator's.
//
// A failure here after memory was allocated cannot be mended: the process ends with a last line
// that names the device, the operation and CUDA's error (lost_device.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

// A list of launches that the device goes through by itself, each behind the ones before it as
// KernelLaunch::early says.
class Graph {
 public:
  virtual ~Graph() = default;
  // Behind everything before.
  virtual void Start() = 0;
};

// Thread: one at a time.
class Runtime : public Launcher {
 public:
  virtual ~Runtime() = default;

  // Zeroed device memory. RESOURCE_EXHAUSTED with the bytes asked for and those free.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  // The same, for memory that kernels that begin early only read: they may do so before they wait
  // for others (gpu.h). Other kernels and copies fill it. Only the emulator tells it apart.
  virtual absl::StatusOr<void*> AllocateConstant(int64_t bytes) { return Allocate(bytes); }
  virtual void Free(void* data) = 0;
  virtual int64_t FreeBytes() = 0;

  // `rows` pieces of `width` bytes, `stride` bytes apart on either side. Queued behind everything
  // before; `from` may change as soon as this returns.
  virtual void Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                      int64_t width, int64_t rows) = 0;
  // The same towards the host. Waits for everything queued.
  virtual void Download(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                        int64_t width, int64_t rows) = 0;
  virtual void Zero(void* data, int64_t bytes) = 0;
  // Whether everything queued has been done; never waits.
  virtual bool Idle() = 0;
  // The place in the queue behind everything so far, and whether it has been reached; never wait.
  // Places are asked about in order, each until it has been.
  virtual uint64_t Mark() = 0;
  virtual bool Passed(uint64_t mark) = 0;

  // False when the bytes are known not to be memory of this device. Only the emulator knows.
  virtual bool Holds(const void* data, int64_t bytes) const { return true; }

  // The device's queue, for work of others.
  virtual Stream stream() = 0;

  // Starts nothing; the arguments are copied. A graph may be destroyed while it runs, and not after
  // its runtime. An error is no harm: the launches can be started one by one.
  virtual absl::StatusOr<std::unique_ptr<Graph>> MakeGraph(
      std::span<const KernelLaunch> launches) = 0;
};

}  // namespace tutti::kernels::cuda
