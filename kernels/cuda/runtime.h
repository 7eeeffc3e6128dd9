// Memory and the one queue of a device: what CudaBackend needs of CUDA besides kernels. The real
// one is runtime_cuda.cc; tests use the emulator's.
//
// Whatever fails here after memory was allocated cannot be mended: the process ends with a last
// line that says what was attempted and what CUDA answered (a worker's crash is an ordinary event
// for its coordinator).
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

// Thread: one at a time.
class Runtime {
 public:
  virtual ~Runtime() = default;

  // Zeroed device memory. RESOURCE_EXHAUSTED with the bytes asked for and those free.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
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

  // False when the bytes are known not to be memory of this device. Only the emulator knows.
  virtual bool Holds(const void* data, int64_t bytes) const { return true; }

  virtual Stream stream() const = 0;
  // Ends the process unless `error`, of a launch function, is 0.
  virtual void Must(int error, const char* operation) = 0;
};

}  // namespace tutti::kernels::cuda
