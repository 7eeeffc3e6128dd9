// Checks of operands before a kernel gets them.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cuda {

// A view of one row has any stride.
inline int64_t Stride(const TensorView& view) { return std::max(view.row_stride, view.cols); }

// Every view says that it lies on `device`, and where the runtime can tell, it does.
inline void CheckOperands(const char* operation, Device device, const Runtime& runtime,
                          std::initializer_list<const TensorView*> views) {
  CheckDevice(operation, device, views);
  for (const TensorView* view : views) {
    if (view->rows == 0 || view->cols == 0 || view->data == nullptr) continue;
    const int64_t values = (view->rows - 1) * Stride(*view) + view->cols;
    CHECK(runtime.Holds(view->data, values * DTypeBytes(view->dtype)))
        << operation << ": a view of " << device.ToString() << " has memory of somebody else";
  }
}

}  // namespace tutti::kernels::cuda
