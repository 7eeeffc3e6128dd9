// A checkpoint of codes (make_codes.h) made from one in f32, f16 or bf16, written as
// compressed-tensors has them (pack-quantized), which transformers reads too.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "model/quant_config.h"

namespace tutti::quant {

// Called with bytes of the source that are done, of how many.
using QuantiseProgress = std::function<void(int64_t done, int64_t total)>;

// Writes the checkpoint in `from` to the folder `to`, which is made: file by file under their
// names, with an index where there is one, the other files copied, config.json with
// quantization_config. INVALID_ARGUMENT: groups that do not divide an input; ALREADY_EXISTS: `to`
// holds a config.json; FAILED_PRECONDITION: `from` is quantised; those of reading and writing.
absl::Status QuantiseCheckpoint(const std::string& from, const std::string& to,
                                const model::QuantiseChoice& choice,
                                const QuantiseProgress& progress);

}  // namespace tutti::quant
