// Reads quantised matrices of whatever layout.
//
// Pure, but for the reading of files.  Thread: any.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/quant_config.h"
#include "model/quantised_tensors.h"
#include "quant/quant_matrix.h"
#include "quant/read_part.h"
#include "quant/spare_codes.h"
#include "quant/tensor_source.h"

namespace tutti::quant {

// Outputs `rows` and inputs `cols` of a matrix, from what model::PartsOf says they need; by
// `threads` threads, each of some outputs, with codes in memory of `spare` where that is given.
//
// INVALID_ARGUMENT, with the tensor and the reason: a group that there is not, or that has more
// inputs than others, or inputs that config.json says it cannot have; zero points that a symmetric
// checkpoint cannot have (as when GPTQ's versions are mixed up), codes and scales that are no
// numbers, scales of 0.
absl::StatusOr<QuantMatrix> DecodeQuantMatrix(const model::QuantisedMatrix& matrix,
                                              const model::QuantConfig& config, model::Range rows,
                                              model::Range cols, std::span<const ReadPart> parts,
                                              int threads = 1, SpareCodes* spare = nullptr);

// All of the matrix of `prefix`. Errors: those above, and of model::FindQuantisedMatrix.
// REQUIRES: model::IsQuantised
absl::StatusOr<QuantMatrix> ReadQuantMatrix(const TensorSource& source, const std::string& prefix,
                                            const model::QuantConfig& config);

}  // namespace tutti::quant
