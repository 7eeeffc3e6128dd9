#include "kernels/cuda/emulated/cublaslt_emulated.h"

#include <utility>

#include "base/check.h"
#include "kernels/cuda/emulated/device_arena.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {
namespace {

using emulated::DeviceArena;

class EmulatedCublasLt : public CublasLt {
 public:
  explicit EmulatedCublasLt(std::shared_ptr<CublasLt> library) : library_(std::move(library)) {}

  int64_t version() const override { return library_->version(); }
  absl::StatusOr<bool> Has(const LibraryProduct& product) override {
    return library_->Has(product);
  }
  absl::Status Multiply(const LibraryProduct& p, void* work_space, Stream stream) override {
    const auto check = [](const char* what, const void* data, int64_t bytes) {
      CHECK(DeviceArena::The().Holds(data, bytes)) << what << " of a product by the library";
    };
    check("the weight", p.weight, p.out_features * p.width * 2);
    check("the rows", p.in, p.rows * p.width * 2);
    check("the result", p.out, ((p.rows - 1) * p.out_stride + p.out_features) * 4);
    check("the work space", work_space, kGpuCublasWorkSpaceBytes);
    const DeviceArena::Access access;
    return library_->Multiply(p, work_space, stream);
  }

 private:
  const std::shared_ptr<CublasLt> library_;
};

}  // namespace

std::shared_ptr<CublasLt> OnEmulatedDevice(std::shared_ptr<CublasLt> library) {
  return std::make_shared<EmulatedCublasLt>(std::move(library));
}

}  // namespace tutti::kernels::cuda
