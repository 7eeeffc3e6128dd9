// Codes of 4 and 8 bits with zero points: GPTQ, AWQ, and the packed and plain integers of
// compressed-tensors.
#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "quant/formats.h"

namespace tutti::quant {
namespace {

using model::StoredType;

// Outputs of nibble i of AWQ's words.
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

constexpr StoredType kInt8Types[] = {StoredType::kI8};

// The number of groups of an input so wide. -1: one.
absl::StatusOr<int64_t> GroupsOf(const Tensors& tensors, std::string_view part, int64_t in,
                                 int64_t group_size) {
  if (group_size == -1) return 1;
  if (in % group_size == 0) return in / group_size;
  return Refuse(tensors.NameOf(part), absl::StrCat("has ", in, " inputs, which groups of ",
                                                   group_size, " do not divide"));
}

QuantMatrix EmptyOfGroups(int64_t out, int64_t in, int64_t groups) {
  QuantMatrix matrix{.out = out, .in = in, .groups = groups};
  matrix.codes.resize(static_cast<size_t>(out * in));
  matrix.scales.resize(static_cast<size_t>(out * groups));
  matrix.group_of.resize(static_cast<size_t>(in));
  for (int64_t k = 0; k < in; ++k) {
    matrix.group_of[static_cast<size_t>(k)] = static_cast<int32_t>(k / (in / groups));
  }
  return matrix;
}

// Groups in any order, each with as many inputs as every other.
absl::Status ReadGroups(const Tensors& tensors, std::string_view part, QuantMatrix* matrix) {
  TUTTI_ASSIGN_OR_RETURN(const auto groups, tensors.Integers(part, matrix->in));
  std::vector<int64_t> inputs(static_cast<size_t>(matrix->groups));
  for (int64_t k = 0; k < matrix->in; ++k) {
    const int64_t group = groups[static_cast<size_t>(k)];
    if (group < 0 || group >= matrix->groups) {
      return Refuse(tensors.NameOf(part),
                    absl::StrCat("element ", k, " is group ", group, " of ", matrix->groups));
    }
    ++inputs[static_cast<size_t>(group)];
    matrix->group_of[static_cast<size_t>(k)] = static_cast<int32_t>(group);
  }
  for (int64_t group = 0; group < matrix->groups; ++group) {
    const int64_t has = inputs[static_cast<size_t>(group)];
    if (has * matrix->groups == matrix->in) continue;
    return Refuse(tensors.NameOf(part),
                  absl::StrCat("group ", group, " has ", has, " inputs, others have ",
                               matrix->in / matrix->groups));
  }
  return absl::OkStatus();
}

// [groups, out] as a file has them, to [out, groups].
void Transpose(const std::vector<float>& scales, QuantMatrix* matrix) {
  for (int64_t g = 0; g < matrix->groups; ++g) {
    for (int64_t n = 0; n < matrix->out; ++n) {
      matrix->scales[static_cast<size_t>(n * matrix->groups + g)] =
          scales[static_cast<size_t>(g * matrix->out + n)];
    }
  }
}

absl::Status CheckZero(const Tensors& tensors, const QuantConfig& config, int64_t group, int64_t n,
                       uint32_t zero) {
  const uint32_t middle = 1u << (config.bits - 1);
  if (!config.symmetric || zero == middle) return absl::OkStatus();
  return Refuse(tensors.NameOf("qzeros"),
                absl::StrCat("output ", n, " of group ", group, " has the zero point ", zero,
                             ", a symmetric checkpoint has ", middle,
                             ": its checkpoint_format (gptq, gptq_v2) or its sym is not what "
                             "config.json says"));
}

}  // namespace

absl::StatusOr<QuantMatrix> ReadGptq(const Tensors& tensors, const QuantConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const Tensors::Shape packed, tensors.ShapeOf("qweight"));
  const int64_t per_word = 32 / config.bits;
  const int64_t in = packed.rows * per_word, out = packed.columns;
  TUTTI_ASSIGN_OR_RETURN(const int64_t groups, GroupsOf(tensors, "qweight", in, config.group_size));
  if (out % per_word != 0) {
    return Refuse(tensors.NameOf("qweight"),
                  absl::StrCat("has ", out, " outputs, whose zero points fill no whole words"));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto words, tensors.Words("qweight", packed));
  TUTTI_ASSIGN_OR_RETURN(auto zeros, tensors.Words("qzeros", {groups, out / per_word}));
  TUTTI_ASSIGN_OR_RETURN(const auto scales, tensors.Scales("scales", groups * out));
  QuantMatrix matrix = EmptyOfGroups(out, in, groups);
  if (tensors.Has("g_idx")) TUTTI_RETURN_IF_ERROR(ReadGroups(tensors, "g_idx", &matrix));
  if (config.zeros_less_one) {
    const uint32_t one_each = config.bits == 4 ? 0x11111111u : 0x01010101u;
    for (uint32_t& word : zeros) word += one_each;
  }
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t n = 0; n < out; ++n) {
      TUTTI_RETURN_IF_ERROR(
          CheckZero(tensors, config, g, n, Field(zeros, g * out + n, config.bits)));
    }
  }
  Transpose(scales, &matrix);
  const uint32_t mask = (1u << config.bits) - 1;
  for (int64_t k = 0; k < in; ++k) {
    const int64_t g = matrix.group_of[static_cast<size_t>(k)];
    const auto shift = static_cast<int>(k % per_word) * config.bits;
    for (int64_t n = 0; n < out; ++n) {
      const uint32_t word = words[static_cast<size_t>(k / per_word * out + n)];
      const auto code = static_cast<int32_t>(word >> shift & mask);
      const auto zero = static_cast<int32_t>(Field(zeros, g * out + n, config.bits));
      matrix.codes[static_cast<size_t>(n * in + k)] = static_cast<float>(code - zero);
    }
  }
  return matrix;
}

absl::StatusOr<QuantMatrix> ReadAwq(const Tensors& tensors, const QuantConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const Tensors::Shape packed, tensors.ShapeOf("qweight"));
  const int64_t in = packed.rows, out = packed.columns * 8;
  TUTTI_ASSIGN_OR_RETURN(const int64_t groups, GroupsOf(tensors, "qweight", in, config.group_size));
  TUTTI_ASSIGN_OR_RETURN(const auto words, tensors.Words("qweight", packed));
  TUTTI_ASSIGN_OR_RETURN(const auto zeros, tensors.Words("qzeros", {groups, packed.columns}));
  TUTTI_ASSIGN_OR_RETURN(const auto scales, tensors.Scales("scales", groups * out));
  QuantMatrix matrix = EmptyOfGroups(out, in, groups);
  Transpose(scales, &matrix);
  for (int64_t k = 0; k < in; ++k) {
    const int64_t g = matrix.group_of[static_cast<size_t>(k)];
    for (int64_t column = 0; column < packed.columns; ++column) {
      const uint32_t codes = words[static_cast<size_t>(k * packed.columns + column)];
      const uint32_t zero = zeros[static_cast<size_t>(g * packed.columns + column)];
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t n = column * 8 + kAwqOrder[static_cast<size_t>(i)];
        const auto code = static_cast<int32_t>(codes >> (4 * i) & 15);
        matrix.codes[static_cast<size_t>(n * in + k)] =
            static_cast<float>(code - static_cast<int32_t>(zero >> (4 * i) & 15));
      }
    }
  }
  return matrix;
}

absl::StatusOr<QuantMatrix> ReadInt8(const Tensors& tensors) {
  TUTTI_ASSIGN_OR_RETURN(const Tensors::Shape shape, tensors.ShapeOf("weight"));
  TUTTI_ASSIGN_OR_RETURN(const auto codes, tensors.Bytes("weight", shape, kInt8Types));
  const auto* const scale = tensors.Find("weight_scale");
  const bool one = scale != nullptr && scale->shape.empty();
  const bool single = scale != nullptr && (one || scale->shape == std::vector<int64_t>{1});
  TUTTI_ASSIGN_OR_RETURN(const auto scales,
                         tensors.Scales("weight_scale", single ? 1 : shape.rows));
  if (tensors.Has("weight_zero_point")) {
    return Refuse(tensors.NameOf("weight_zero_point"),
                  "is not supported beside plain integers: their zero point is 0");
  }
  QuantMatrix matrix = EmptyOfGroups(shape.rows, shape.columns, 1);
  for (int64_t n = 0; n < shape.rows; ++n) {
    matrix.scales[static_cast<size_t>(n)] = scales[single ? 0 : static_cast<size_t>(n)];
  }
  std::transform(codes.begin(), codes.end(), matrix.codes.begin(),
                 [](uint8_t code) { return static_cast<float>(static_cast<int8_t>(code)); });
  return matrix;
}

absl::StatusOr<QuantMatrix> ReadPacked(const Tensors& tensors, const QuantConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const auto shape, tensors.Integers("weight_shape", 2));
  const int64_t out = shape[0], in = shape[1];
  constexpr int64_t kMost = int64_t{1} << 31;
  if (out < 1 || in < 1 || out > kMost || in > kMost) {
    return Refuse(tensors.NameOf("weight_shape"), absl::StrCat("is [", out, ", ", in, "]"));
  }
  const int64_t per_word = 32 / config.bits;
  const int64_t row_words = (in + per_word - 1) / per_word;
  TUTTI_ASSIGN_OR_RETURN(const auto words, tensors.Words("weight_packed", {out, row_words}));
  TUTTI_ASSIGN_OR_RETURN(const int64_t groups,
                         GroupsOf(tensors, "weight_packed", in, config.group_size));
  TUTTI_ASSIGN_OR_RETURN(const auto scales, tensors.Scales("weight_scale", out * groups));
  QuantMatrix matrix = EmptyOfGroups(out, in, groups);
  matrix.scales = scales;
  if (tensors.Has("weight_g_idx")) {
    TUTTI_RETURN_IF_ERROR(ReadGroups(tensors, "weight_g_idx", &matrix));
  }
  std::vector<uint32_t> zeros;
  if (!config.symmetric) {
    const int64_t zero_words = (out + per_word - 1) / per_word;
    TUTTI_ASSIGN_OR_RETURN(zeros, tensors.Words("weight_zero_point", {zero_words, groups}));
  }
  const int32_t middle = 1 << (config.bits - 1);
  const uint32_t mask = (1u << config.bits) - 1;
  for (int64_t n = 0; n < out; ++n) {
    const std::span<const uint32_t> row(&words[static_cast<size_t>(n * row_words)],
                                        static_cast<size_t>(row_words));
    const auto shift = static_cast<int>(n % per_word) * config.bits;
    for (int64_t k = 0; k < in; ++k) {
      const int64_t g = matrix.group_of[static_cast<size_t>(k)];
      int32_t zero = middle;
      if (!zeros.empty()) {
        const uint32_t word = zeros[static_cast<size_t>(n / per_word * groups + g)];
        zero = static_cast<int32_t>(word >> shift & mask);
      }
      const auto code = static_cast<int32_t>(Field(row, k, config.bits));
      matrix.codes[static_cast<size_t>(n * in + k)] = static_cast<float>(code - zero);
    }
  }
  return matrix;
}

}  // namespace tutti::quant
