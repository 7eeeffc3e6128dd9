#include "kernels/cuda/emulated/emulated_backend.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/cuda_backend.h"

namespace tutti::kernels::cuda {
namespace {

class EmulatedRuntime : public Runtime {
 public:
  ~EmulatedRuntime() override {
    CHECK(memory_.empty()) << memory_.size() << " buffers were leaked";
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (bytes > FreeBytes()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("emulated GPU: ", bytes, " bytes asked for, ", FreeBytes(), " are free"));
    }
    constexpr size_t kAlignment = 256;
    const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    void* const data = std::aligned_alloc(kAlignment, rounded);
    CHECK(data != nullptr);
    std::memset(data, 0, rounded);
    memory_[data] = bytes;
    return data;
  }
  int64_t FreeBytes() override { return int64_t{4} << 30; }
  void Free(void* data) override {
    CHECK(memory_.erase(data) == 1) << "freed twice";
    std::free(data);
  }
  void Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
              int64_t rows) override {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_stride,
                  static_cast<const char*>(from) + r * from_stride, width);
    }
  }
  void Download(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
                int64_t rows) override {
    Upload(to, to_stride, from, from_stride, width, rows);
  }
  void Zero(void* data, int64_t bytes) override { std::memset(data, 0, bytes); }
  Stream stream() const override { return nullptr; }
  void Must(int error, const char* operation) override { CHECK(error == 0) << operation; }

 private:
  std::map<void*, int64_t> memory_;
};

}  // namespace

std::unique_ptr<Backend> MakeEmulatedBackend() {
  return MakeCudaBackend(std::make_unique<EmulatedRuntime>(), 0, "cuda-emulated");
}

}  // namespace tutti::kernels::cuda
