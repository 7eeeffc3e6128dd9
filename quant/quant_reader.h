// Reads quantised matrices of whatever layout.
//
// Pure, but for the reading of files.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "quant/quant_config.h"
#include "quant/quant_matrix.h"
#include "quant/tensor_source.h"

namespace tutti::quant {

// Whether the tensors of `prefix` are those of a quantised matrix: `prefix`.qweight,
// .weight_packed, or .weight with scales.
bool IsQuantised(const TensorSource& source, std::string_view prefix);

// INVALID_ARGUMENT, with the tensor and the reason: a companion is missing, has another type or
// shape, a group that there is not or that has more columns than others, zero points that a
// symmetric checkpoint cannot have (as when GPTQ's versions are mixed up), codes and scales that
// are no numbers, scales of 0.  REQUIRES: IsQuantised
absl::StatusOr<QuantMatrix> ReadQuantMatrix(const TensorSource& source, const std::string& prefix,
                                            const QuantConfig& config);

}  // namespace tutti::quant
