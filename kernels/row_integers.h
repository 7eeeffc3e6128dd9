// Rows of activations as integers of 8 bits, each row by a scale of its own
// (kernels/quantised_source.h).
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// The largest magnitude of a row; NaN or Inf where an element is one.
float LargestOfRow(const float* row, int64_t cols);

// What an integer stands for in a row of that largest magnitude. NaN where that is not finite.
float RowScale(float largest);

// out[k] = row[k] / scale to nearest even, within +-127; zeros where the scale is 0 or NaN.
void RoundRow(const float* row, int64_t cols, float scale, int16_t* out);

}  // namespace tutti::kernels
