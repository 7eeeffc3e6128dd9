// The leaves of a product as the kernels count them.
#pragma once

#include <vector>

#include "base/status.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// INVALID_ARGUMENT for more leaves than the kernels add up, or k beyond 2^31.
//   leaf_begin [leaves + 1], of a checked WeightShape
absl::StatusOr<LeafMap> MakeLeafMap(const std::vector<int64_t>& leaf_begin);

}  // namespace tutti::kernels::cuda
