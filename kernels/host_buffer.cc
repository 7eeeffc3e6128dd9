#include "kernels/host_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"

namespace tutti::kernels {
namespace {

class HostBuffer : public DeviceBuffer {
 public:
  HostBuffer(void* mapping, size_t mapped_bytes, void* data, int64_t bytes)
      : mapping_(mapping), mapped_bytes_(mapped_bytes), data_(data), bytes_(bytes) {}
  ~HostBuffer() override {
    if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* const mapping_;
  const size_t mapped_bytes_;
  void* const data_;
  const int64_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocateHost(int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("allocate ", bytes, " bytes"));
  if (bytes == 0) return std::make_unique<HostBuffer>(nullptr, 0, nullptr, 0);
  const bool large = bytes >= kLargePageBytes;
  // The slack for alignment is address space only: it is never written.
  const int64_t slack = large ? kLargePageBytes : 0;
  if (bytes > INT64_MAX - slack) {
    return absl::ResourceExhaustedError(absl::StrCat("allocate ", bytes, " bytes"));
  }
  const size_t mapped = static_cast<size_t>(bytes + slack);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("allocate ", bytes, " bytes: ", std::strerror(errno)));
  }
  uintptr_t data = reinterpret_cast<uintptr_t>(mapping);
  if (large) {
    data = (data + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
    // Advice only: without large pages everything works, a little slower.
    madvise(reinterpret_cast<void*>(data), static_cast<size_t>(bytes), MADV_HUGEPAGE);
  }
  return std::make_unique<HostBuffer>(mapping, mapped, reinterpret_cast<void*>(data), bytes);
}

}  // namespace tutti::kernels
