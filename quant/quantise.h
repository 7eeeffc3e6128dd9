// Codes made of the weights of a checkpoint in f32, f16 or bf16, by rounding to nearest: no
// calibration, and so the worst of what 4 bits can be. Written as compressed-tensors has them
// (pack-quantized), which transformers reads too.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/quant_config.h"

namespace tutti::quant {

// "int8": of each output one scale. "int4-g128": of 128 inputs, or another multiple of 8.
// INVALID_ARGUMENT: another text, with these.
absl::StatusOr<model::QuantConfig> ParseQuantiseScheme(std::string_view scheme);

// One group: bf16 scale, codes of config.bits bits plus their middle. The largest magnitude is half
// a step above the largest code, as others round too.
//
// Returns the scale; `codes` [weights.size()].
float QuantiseGroup(const model::QuantConfig& config, std::span<const float> weights,
                    uint8_t* codes);

struct QuantiseOptions {
  std::string scheme;  // of ParseQuantiseScheme
  bool head = false;   // the head too; a tied one becomes a matrix of its own
};

// Called with bytes of the source that are done, of how many.
using QuantiseProgress = std::function<void(int64_t done, int64_t total)>;

// Writes the checkpoint in `from` to the folder `to`, which is made: file by file under their
// names, with an index where there is one, the other files copied, config.json with
// quantization_config. INVALID_ARGUMENT: groups that do not divide an input; ALREADY_EXISTS: `to`
// holds a config.json; FAILED_PRECONDITION: `from` is quantised; those of reading and writing.
absl::Status QuantiseCheckpoint(const std::string& from, const std::string& to,
                                const QuantiseOptions& options, const QuantiseProgress& progress);

}  // namespace tutti::quant
