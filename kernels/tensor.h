// Views of numbers in some device's memory. A view never owns; a DeviceBuffer does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/device_kind.h"
#include "base/dtype.h"

namespace tutti::kernels {

using tutti::DeviceKind;

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;
  bool operator==(const Device&) const = default;
  std::string ToString() const {
    return (kind == DeviceKind::kCpu ? "cpu" : "cuda") + (":" + std::to_string(index));
  }
};

// A matrix [rows, cols], rows `row_stride` elements apart, each row contiguous. Column ranges of a
// wider matrix (the queries inside a fused QKV result, one head, a K-slice of a checkpoint matrix)
// are views with a larger stride.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Device device;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // in elements, >= cols

  template <typename T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * row_stride;
  }
  float* f32(int64_t r = 0) const {
    PARANOID_CHECK(dtype == DType::kF32);
    return row<float>(r);
  }
  // Columns [begin, begin + count) of every row.
  TensorView Columns(int64_t begin, int64_t count) const {
    PARANOID_CHECK(begin >= 0 && begin + count <= cols);
    TensorView view = *this;
    view.data = static_cast<char*>(data) + begin * DTypeBytes(dtype);
    view.cols = count;
    return view;
  }
  // Rows [begin, begin + count).
  TensorView Rows(int64_t begin, int64_t count) const {
    PARANOID_CHECK(begin >= 0 && begin + count <= rows);
    TensorView view = *this;
    view.data = static_cast<char*>(data) + begin * row_stride * DTypeBytes(dtype);
    view.rows = count;
    return view;
  }
};

}  // namespace tutti::kernels
