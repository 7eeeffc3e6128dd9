#include "kernels/cuda/cuda_buffer.h"

#include "absl/strings/str_cat.h"

namespace tutti::kernels::cuda {

absl::StatusOr<std::unique_ptr<CudaBuffer>> CudaBuffer::Make(Runtime* runtime, int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("allocate ", bytes, " bytes"));
  if (bytes == 0) return std::unique_ptr<CudaBuffer>(new CudaBuffer(runtime, nullptr, 0));
  TUTTI_ASSIGN_OR_RETURN(void* const data, runtime->Allocate(bytes));
  return std::unique_ptr<CudaBuffer>(new CudaBuffer(runtime, data, bytes));
}

absl::StatusOr<std::unique_ptr<CudaBuffer>> CudaBuffer::MakeConstant(Runtime* runtime,
                                                                     int64_t bytes) {
  if (bytes <= 0) return Make(runtime, bytes);
  TUTTI_ASSIGN_OR_RETURN(void* const data, runtime->AllocateConstant(bytes));
  return std::unique_ptr<CudaBuffer>(new CudaBuffer(runtime, data, bytes));
}

CudaBuffer::~CudaBuffer() {
  if (data_ != nullptr) runtime_->Free(data_);
}

}  // namespace tutti::kernels::cuda
