// What config.json says of how the weights of a checkpoint are quantised. The tensors that exist
// decide which matrices are (quantised_tensors.h); this says what their numbers mean.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/code_kind.h"

namespace tutti::model {

enum class Method : uint8_t {
  kGptq,               // qweight, qzeros, scales, perhaps g_idx: packed along the input
  kAwq,                // the same names, packed along the output, in an order of its own
  kFp8,                // weight in e4m3, weight_scale_inv by blocks
  kCompressedTensors,  // weight or weight_packed, weight_scale, ...
  kModelOpt,           // weight, weight_scale, weight_scale_2: NVFP4, or FP8 by tensor
};

// The layouts of compressed-tensors that are read.
enum class PackedFormat : uint8_t { kNone, kFloat, kInt, kPacked, kMxfp4, kNvfp4 };

struct QuantConfig {
  Method method = Method::kGptq;
  int bits = 4;
  int64_t group_size = 128;     // input columns of one scale (of NVFP4 an inner one); -1: all
  bool symmetric = true;        // the zero point is the middle of the codes
  bool zeros_less_one = false;  // GPTQ v1: zero points are stored less one
  int64_t block_rows = 0;       // FP8: of weight_scale_inv; 0: none
  int64_t block_columns = 0;
  PackedFormat packed = PackedFormat::kNone;
  // The inputs of a group may be any (desc_act, actorder): which, the tensors say.
  bool any_order = false;
  // Activations become integers of 8 bits too, each row by a scale of its own. (Those of FP8 and
  // NVFP4 checkpoints do not: kernels multiply such weights by activations as they are.)
  bool quantises_activations = false;
  // The type of the scales as they are held: known when the tensors are.
  DType scale_type = DType::kF16;
  bool operator==(const QuantConfig&) const = default;

  kernels::CodeKind kind() const;
  // Whether each group has a zero point of its own; AWQ's files have them also where all are the
  // middle of the codes ("zero_point": false).
  bool has_zeros() const {
    return kernels::IsInteger(kind()) && (!symmetric || method == Method::kAwq);
  }
};

// An operator's wish for codes: a text of ParseQuantiseScheme (quantise_choice.h), and whether the
// head has codes, too.
struct QuantiseChoice {
  std::string scheme;  // empty: none
  bool head = false;
};

// "gptq of 4 bits, groups of 128", for people.
std::string DescribeQuantConfig(const QuantConfig& config);

// The formats that matrices may have, each once: one, or more where layers have groups or patterns
// of their own. `object`: quantization_config (or compression_config, or a quantize_config.json).
// UNIMPLEMENTED: a method, layout or width that is not read here, by name, with what would load
// instead; more than kQuantFormatsMax. INVALID_ARGUMENT: a field that contradicts itself. `path`
// stands before every error.
absl::StatusOr<std::vector<QuantConfig>> ParseQuantConfigs(const nlohmann::json& object,
                                                           const std::string& path);

}  // namespace tutti::model
