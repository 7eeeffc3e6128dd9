// Codes that are made of a checkpoint in f32, f16 or bf16 while it is loaded (--quantize), and what
// its configuration becomes then. Those of `tutti quantize` are the same: by rounding to nearest.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/model_config.h"
#include "model/partition.h"
#include "model/range.h"

namespace tutti::model {

// "int8": of each output one scale. "int4-g128": of 128 inputs, or another multiple of 8.
// INVALID_ARGUMENT: another text, with these.
absl::StatusOr<QuantConfig> ParseQuantiseScheme(std::string_view scheme);

// Sets config->quant, its roles and config->quantise; nothing where `choice` has no scheme.
// INVALID_ARGUMENT names the flag: an unknown scheme, a head without one, a checkpoint that is
// quantised already, or the tensor whose inputs the groups do not divide.
absl::Status ApplyQuantise(const QuantiseChoice& choice, ModelConfig* config);

// INVALID_ARGUMENT: groups of `quant` do not divide the `in` inputs of the tensor.
absl::Status CheckGroups(const QuantConfig& quant, const std::string& tensor, int64_t in);

// The inputs that codes of part.cols are made of: whole groups.  REQUIRES: config.makes_codes
Range ColsOfCodes(const ModelConfig& config, const ShardTensor& part);

// The fingerprint of what is served from a checkpoint of that fingerprint: with the scheme behind
// it, for other codes give other answers.
std::string ServedFingerprint(const std::string& fingerprint, const ModelConfig& config);

}  // namespace tutti::model
