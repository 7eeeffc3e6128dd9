// Operations on rows, number by number: the same expression wherever a kernel computes it, so that
// joined kernels give the bits of plain ones.
#pragma once

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

struct Sum {
  TUTTI_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  TUTTI_DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};

// One over the root mean square of `count` numbers whose squares add up to `sum`.
TUTTI_DEVICE float InverseRms(float sum, int64_t count, float epsilon) {
  return 1 / sqrtf(sum / static_cast<float>(count) + epsilon);
}

TUTTI_DEVICE float SiluTimes(float gate, float up) { return gate / (1 + expf(-gate)) * up; }

// A pair of a head's numbers, turned by an angle.
struct Turned {
  float a, b;
};
TUTTI_DEVICE Turned Turn(float a, float b, float cosine, float sine) {
  return {FusedMultiplyAdd(a, cosine, -(b * sine)), FusedMultiplyAdd(b, cosine, a * sine)};
}

// `largest`, or |value| where that is larger and finite: NaN and Inf are left out, for no scale
// makes them finite.
TUTTI_DEVICE float LargestFinite(float largest, float value) {
  const float magnitude = fabsf(value);
  return magnitude > largest && magnitude < __builtin_inff() ? magnitude : largest;
}

}  // namespace tutti::kernels::cuda
