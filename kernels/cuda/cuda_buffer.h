// Memory of the device, with an owner.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// Memory of the device, freed with its owner.
class CudaBuffer : public DeviceBuffer {
 public:
  // RESOURCE_EXHAUSTED with the bytes asked for and those free; INVALID_ARGUMENT for a negative
  // number.
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> Make(Runtime* runtime, int64_t bytes);
  // Of Runtime::AllocateConstant.
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> MakeConstant(Runtime* runtime, int64_t bytes);
  ~CudaBuffer() override;
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  CudaBuffer(Runtime* runtime, void* data, int64_t bytes)
      : runtime_(runtime), data_(data), bytes_(bytes) {}
  Runtime* const runtime_;
  void* const data_;
  const int64_t bytes_;
};

}  // namespace tutti::kernels::cuda
