// Every view names the device its memory is on, and an operator takes views of its backend's device
// only. These CHECK so, naming the operator and both devices.
#pragma once

#include <initializer_list>

#include "base/check.h"
#include "kernels/backend.h"

namespace tutti::kernels {

// Every view that has memory lies on the backend's device.
inline void CheckDevice(const char* operation, Device backend,
                 std::initializer_list<const TensorView*> views) {
  for (const TensorView* view : views) {
    CHECK(view->device == backend || view->data == nullptr)
        << operation << " on " << backend.ToString() << ": an operand lies on "
        << view->device.ToString();
  }
}

inline void CheckDevice(const char* operation, Device backend, const KvLayer& cache) {
  CHECK(cache.device == backend) << operation << " on " << backend.ToString()
                                 << ": the KV cache lies on " << cache.device.ToString();
}

// Convert: each view lies on the backend's device or in host memory, one at least on the former.
inline void CheckConvertDevices(Device backend, const TensorView& in, const TensorView& out) {
  const Device host;
  CHECK(in.device == backend || out.device == backend)
      << "Convert on " << backend.ToString() << ": from " << in.device.ToString() << " to "
      << out.device.ToString();
  CHECK(in.device == backend || in.device == host)
      << "Convert on " << backend.ToString() << ": from " << in.device.ToString();
  CHECK(out.device == backend || out.device == host)
      << "Convert on " << backend.ToString() << ": to " << out.device.ToString();
}

}  // namespace tutti::kernels
