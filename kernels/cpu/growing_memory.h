// Memory of a backend between its operators.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/host_buffer.h"

namespace tutti::kernels::cpu {

// Memory that grows to the largest request and stays: after the first steps no operator allocates.
class Scratch {
 public:
  void* Bytes(int64_t bytes) {
    if (buffer_ == nullptr || buffer_->bytes() < bytes) {
      buffer_.reset();
      auto buffer = AllocateHost(bytes);
      CHECK(buffer.ok()) << buffer.status();
      buffer_ = *std::move(buffer);
    }
    return buffer_->data();
  }
  float* Floats(int64_t count) { return static_cast<float*>(Bytes(count * sizeof(float))); }

 private:
  std::unique_ptr<DeviceBuffer> buffer_;
};

}  // namespace tutti::kernels::cpu
