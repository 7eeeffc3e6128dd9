// Codes made of weights in f32, f16 or bf16, by rounding to nearest: no calibration, and so the
// worst of what 4 bits can be. `tutti quantize` writes them, --quantize serves from them: the same.
//
// Pure.  Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "model/quant_config.h"
#include "model/range.h"
#include "quant/quant_matrix.h"
#include "quant/spare_codes.h"

namespace tutti::quant {

// One group: bf16 scale, codes of config.bits bits plus their middle. The largest magnitude is half
// a step above the largest code, as others round too.
//
// Returns the scale; `codes` [weights.size()].
float QuantiseGroup(const model::QuantConfig& config, std::span<const float> weights,
                    uint8_t* codes);

// Rows of a matrix of `in` inputs: those of `cols`, whole groups, without gaps.
struct PlainRows {
  const std::string* tensor = nullptr;  // its name
  int64_t first_row = 0;                // of the tensor
  int64_t rows = 0;
  model::Range cols;
  int64_t in = 0;
  DType type = DType::kBF16;
  const std::byte* elements = nullptr;  // [rows, cols.size()]
};

// Codes and scales of output first_row + n: `row` [cols.size()] is used as room, `codes`
// [cols.size()], `scales` [groups of cols] bf16.
// INVALID_ARGUMENT: a weight that is no number, with tensor and place
absl::Status QuantiseRow(const model::QuantConfig& config, const PlainRows& plain, int64_t n,
                         std::span<float> row, uint8_t* codes, uint16_t* scales);

// The matrix of inputs `cols`, of those of `plain`; groups of others have the scale 1. Made by
// `threads` threads, each of some rows, with codes in memory of `spare` where that is given.
// Errors: those of QuantiseRow, of the first row that has one
absl::StatusOr<QuantMatrix> MakeQuantMatrix(const model::QuantConfig& config,
                                            const PlainRows& plain, model::Range cols,
                                            int threads = 1, SpareCodes* spare = nullptr);

}  // namespace tutti::quant
