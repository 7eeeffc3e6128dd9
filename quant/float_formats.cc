// Codes of 8 and 4 bits that are floating point numbers themselves: FP8, MXFP4, NVFP4.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "quant/codes.h"
#include "quant/formats.h"

namespace tutti::quant {
namespace {

using model::StoredType;

constexpr StoredType kE4m3Types[] = {StoredType::kF8E4M3};
constexpr StoredType kByteTypes[] = {StoredType::kU8};

// The rows and columns of one scale.
struct Block {
  int64_t rows = 0;
  int64_t columns = 0;
};

// What the shape of the scales says, which the configuration must not contradict.
absl::StatusOr<Block> BlockOf(const Tensors& tensors, const QuantConfig& config,
                              std::string_view scale, Tensors::Shape shape) {
  const model::TensorInfo* const found = tensors.Find(scale);
  if (found == nullptr) return Refuse(tensors.NameOf(scale), "is missing");
  const std::vector<int64_t>& has = found->shape;
  if (has.empty() || has == std::vector<int64_t>{1} || has == std::vector<int64_t>{1, 1}) {
    if (config.block_rows == 0 ||
        (shape.rows <= config.block_rows && shape.columns <= config.block_columns)) {
      return Block{shape.rows, shape.columns};
    }
  }
  if (config.block_rows == 0 &&
      (has == std::vector<int64_t>{shape.rows, 1} || has == std::vector<int64_t>{shape.rows})) {
    return Block{1, shape.columns};
  }
  const auto blocks = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
  if (config.block_rows > 0 &&
      has == std::vector<int64_t>{blocks(shape.rows, config.block_rows),
                                  blocks(shape.columns, config.block_columns)}) {
    return Block{config.block_rows, config.block_columns};
  }
  const std::string wanted = config.block_rows > 0 ? absl::StrCat("blocks of [", config.block_rows,
                                                                  ", ", config.block_columns, "]")
                                                   : "one for all or one for each output";
  return Refuse(tensors.NameOf(scale),
                absl::StrCat("has shape ", found->ShapeText(), ", which is not ", wanted, " of [",
                             shape.rows, ", ", shape.columns, "]"));
}

absl::Status CheckNumbers(const Tensors& tensors, std::string_view part,
                          const std::vector<uint8_t>& codes, int64_t columns) {
  for (size_t i = 0; i < codes.size(); ++i) {
    if (!IsE4m3Nan(codes[i])) continue;
    const auto at = static_cast<int64_t>(i);
    return Refuse(tensors.NameOf(part),
                  absl::StrCat("element [", at / columns, ", ", at % columns, "] is not a number"));
  }
  return absl::OkStatus();
}

QuantMatrix Empty(Tensors::Shape shape, int64_t columns_of_group) {
  QuantMatrix matrix{.out = shape.rows, .in = shape.columns};
  matrix.groups = (shape.columns + columns_of_group - 1) / columns_of_group;
  matrix.codes.resize(static_cast<size_t>(shape.rows * shape.columns));
  matrix.scales.resize(static_cast<size_t>(shape.rows * matrix.groups));
  matrix.group_of.resize(static_cast<size_t>(shape.columns));
  for (int64_t k = 0; k < shape.columns; ++k) {
    matrix.group_of[static_cast<size_t>(k)] = static_cast<int32_t>(k / columns_of_group);
  }
  return matrix;
}

// E4m3, each above 0.
absl::StatusOr<std::vector<float>> ReadNvfp4Scales(const Tensors& tensors, Tensors::Shape shape) {
  TUTTI_ASSIGN_OR_RETURN(const auto codes, tensors.Bytes("weight_scale", shape, kE4m3Types));
  TUTTI_RETURN_IF_ERROR(CheckNumbers(tensors, "weight_scale", codes, shape.columns));
  std::vector<float> scales;
  scales.reserve(codes.size());
  for (const uint8_t code : codes) {
    scales.push_back(E4m3ToF32(code));
    if (scales.back() > 0) continue;
    return Refuse(
        tensors.NameOf("weight_scale"),
        absl::StrCat("element ", scales.size() - 1, " is ", scales.back(), ", which is no scale"));
  }
  return scales;
}

}  // namespace

absl::StatusOr<QuantMatrix> ReadFp8Blocks(const Tensors& tensors, const QuantConfig& config,
                                          std::string_view scale) {
  TUTTI_ASSIGN_OR_RETURN(const Tensors::Shape shape, tensors.ShapeOf("weight"));
  TUTTI_ASSIGN_OR_RETURN(const auto codes, tensors.Bytes("weight", shape, kE4m3Types));
  TUTTI_RETURN_IF_ERROR(CheckNumbers(tensors, "weight", codes, shape.columns));
  TUTTI_ASSIGN_OR_RETURN(const Block block, BlockOf(tensors, config, scale, shape));
  QuantMatrix matrix = Empty(shape, block.columns);
  const int64_t block_rows = (shape.rows + block.rows - 1) / block.rows;
  TUTTI_ASSIGN_OR_RETURN(const auto scales, tensors.Scales(scale, block_rows * matrix.groups));
  for (int64_t n = 0; n < shape.rows; ++n) {
    for (int64_t g = 0; g < matrix.groups; ++g) {
      matrix.scales[static_cast<size_t>(n * matrix.groups + g)] =
          scales[static_cast<size_t>(n / block.rows * matrix.groups + g)];
    }
  }
  for (size_t i = 0; i < codes.size(); ++i) matrix.codes[i] = E4m3ToF32(codes[i]);
  return matrix;
}

absl::StatusOr<QuantMatrix> ReadFp4(const Tensors& tensors, const QuantConfig& config) {
  const char* const part = tensors.Has("weight_packed") ? "weight_packed" : "weight";
  TUTTI_ASSIGN_OR_RETURN(const Tensors::Shape packed, tensors.ShapeOf(part));
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, tensors.Bytes(part, packed, kByteTypes));
  const Tensors::Shape shape{packed.rows, packed.columns * 2};
  const int64_t group = config.packed == PackedFormat::kMxfp4 ? 32 : 16;
  if (shape.columns % group != 0) {
    return Refuse(
        tensors.NameOf(part),
        absl::StrCat("has ", shape.columns, " inputs, which groups of ", group, " do not divide"));
  }
  QuantMatrix matrix = Empty(shape, group);
  if (config.packed == PackedFormat::kMxfp4) {
    if (const model::TensorInfo* const found = tensors.Find("weight_scale");
        found != nullptr && model::StoredTypeBytes(found->dtype) != 1) {
      return Refuse(tensors.NameOf("weight_scale"), "is not of powers of two, in U8 or F8_E8M0");
    }
    TUTTI_ASSIGN_OR_RETURN(matrix.scales,
                           tensors.Scales("weight_scale", shape.rows * matrix.groups));
  } else {
    TUTTI_ASSIGN_OR_RETURN(matrix.scales, ReadNvfp4Scales(tensors, {shape.rows, matrix.groups}));
    const bool divides = tensors.Has("weight_global_scale");
    TUTTI_ASSIGN_OR_RETURN(const auto whole,
                           tensors.Scales(divides ? "weight_global_scale" : "weight_scale_2", 1));
    matrix.tensor_scale = divides ? 1 / whole.front() : whole.front();
    if (!std::isfinite(matrix.tensor_scale)) {
      return Refuse(tensors.NameOf("weight_global_scale"),
                    absl::StrCat("is ", whole.front(), ", too small to divide by"));
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    matrix.codes[2 * i] = E2m1ToF32(bytes[i] & 15);
    matrix.codes[2 * i + 1] = E2m1ToF32(bytes[i] >> 4);
  }
  return matrix;
}

}  // namespace tutti::quant
