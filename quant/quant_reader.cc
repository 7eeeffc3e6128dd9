#include "quant/quant_reader.h"

#include "absl/strings/str_cat.h"
#include "quant/formats.h"
#include "quant/tensors.h"

namespace tutti::quant {

bool IsQuantised(const TensorSource& source, std::string_view prefix) {
  const std::string name(prefix);
  const Tensors tensors(source, name);
  if (tensors.Has("qweight") || tensors.Has("weight_packed")) return true;
  return tensors.Has("weight") && (tensors.Has("weight_scale") || tensors.Has("weight_scale_inv"));
}

absl::StatusOr<QuantMatrix> ReadQuantMatrix(const TensorSource& source, const std::string& prefix,
                                            const QuantConfig& config) {
  const Tensors tensors(source, prefix);
  switch (config.method) {
    case Method::kGptq:
      return ReadGptq(tensors, config);
    case Method::kAwq:
      return ReadAwq(tensors, config);
    case Method::kFp8:
      return ReadFp8Blocks(tensors, config,
                           tensors.Has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale");
    case Method::kCompressedTensors:
    case Method::kModelOpt:
      break;
  }
  switch (config.packed) {
    case PackedFormat::kFloat:
      return ReadFp8Blocks(tensors, config, "weight_scale");
    case PackedFormat::kInt:
      return ReadInt8(tensors);
    case PackedFormat::kPacked:
      return ReadPacked(tensors, config);
    case PackedFormat::kMxfp4:
    case PackedFormat::kNvfp4:
      return ReadFp4(tensors, config);
    case PackedFormat::kNone:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(prefix, ": no layout is known"));
}

}  // namespace tutti::quant
