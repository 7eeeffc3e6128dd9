#include "quant/make_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/float_formats.h"
#include "model/quantised_tensors.h"
#include "quant/in_parts.h"

namespace tutti::quant {
namespace {

// What x + kRounder - kRounder rounds to the nearest integer, of ties to the even one, where
// |x| < 2^22: compilers make many at a time of that, which they do not of nearbyint.
constexpr float kRounder = 12582912.f;  // 1.5 * 2^23

int64_t GroupOf(const model::QuantConfig& config, int64_t in) {
  return config.group_size == -1 ? in : config.group_size;
}

void Widen(const std::byte* elements, DType type, std::span<float> row) {
  switch (type) {
    case DType::kF32:
      std::memcpy(row.data(), elements, row.size_bytes());
      return;
    case DType::kBF16:
      for (size_t k = 0; k < row.size(); ++k) {
        uint16_t bits = 0;
        std::memcpy(&bits, elements + 2 * k, 2);
        row[k] = kernels::Bf16ToF32(bits);
      }
      return;
    case DType::kF16:
      for (size_t k = 0; k < row.size(); ++k) {
        row[k] = kernels::LoadAsF32(elements, type, static_cast<int64_t>(k));
      }
      return;
  }
}

}  // namespace

float QuantiseGroup(const model::QuantConfig& config, std::span<const float> weights,
                    uint8_t* codes) {
  float largest = 0;
  for (const float weight : weights) largest = std::max(largest, std::abs(weight));
  const int middle = 1 << (config.bits - 1);
  float scale = kernels::RoundTo(DType::kBF16, largest / (static_cast<float>(middle) - 0.5f));
  if (!(scale > 0) || !std::isfinite(scale)) scale = 1;
  const auto least = static_cast<float>(-middle), most = static_cast<float>(middle - 1);
  for (const float weight : weights) {
    const float bounded = std::clamp(weight / scale, least, most);
    const float code = (bounded + kRounder) - kRounder;
    *codes++ = static_cast<uint8_t>(static_cast<int>(code) + middle);
  }
  return scale;
}

absl::Status QuantiseRow(const model::QuantConfig& config, const PlainRows& plain, int64_t n,
                         std::span<float> row, uint8_t* codes, uint16_t* scales) {
  const int64_t bytes = plain.cols.size() * DTypeBytes(plain.type);
  Widen(plain.elements + n * bytes, plain.type, row);
  for (size_t k = 0; k < row.size(); ++k) {
    if (std::isfinite(row[k])) continue;
    return model::RefuseTensor(
        *plain.tensor,
        absl::StrCat("has a weight that is no number (", row[k], ") at [", plain.first_row + n,
                     ", ", plain.cols.begin + static_cast<int64_t>(k),
                     "]; its codes would be as wrong"));
  }
  const auto group = static_cast<size_t>(GroupOf(config, plain.in));
  for (size_t k = 0; k < row.size(); k += group) {
    const float scale = QuantiseGroup(config, row.subspan(k, group), codes + k);
    *scales++ = kernels::F32ToBf16(scale);
  }
  return absl::OkStatus();
}

absl::StatusOr<QuantMatrix> MakeQuantMatrix(const model::QuantConfig& config,
                                            const PlainRows& plain, model::Range cols, int threads,
                                            SpareCodes* spare) {
  const int64_t group = GroupOf(config, plain.in);
  QuantMatrix matrix;
  matrix.kind = config.kind();
  matrix.out = plain.rows;
  matrix.in = cols.size();
  matrix.groups = plain.in / group;
  matrix.scale_type = config.scale_type;
  const auto codes = static_cast<size_t>(matrix.out * matrix.in);
  matrix.codes = spare == nullptr ? std::vector<uint8_t>(codes) : spare->Take(codes);
  std::vector<uint16_t> scales(static_cast<size_t>(matrix.out * matrix.groups),
                               kernels::F32ToBf16(1));
  for (int64_t k = cols.begin; k < cols.end; ++k) {
    matrix.group_of.push_back(static_cast<int32_t>(k / group));
  }
  TUTTI_RETURN_IF_ERROR(InParts(plain.rows, threads, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(plain.cols.size()));
    std::vector<uint8_t> of_row(row.size());
    for (int64_t n = begin; n < end; ++n) {
      TUTTI_RETURN_IF_ERROR(
          QuantiseRow(config, plain, n, row, of_row.data(),
                      &scales[static_cast<size_t>(n * matrix.groups + plain.cols.begin / group)]));
      std::memcpy(&matrix.codes[static_cast<size_t>(n * matrix.in)],
                  &of_row[static_cast<size_t>(cols.begin - plain.cols.begin)],
                  static_cast<size_t>(matrix.in));
    }
    return absl::OkStatus();
  }));
  matrix.scales.resize(scales.size() * sizeof(scales[0]));
  std::memcpy(matrix.scales.data(), scales.data(), matrix.scales.size());
  return matrix;
}

}  // namespace tutti::quant
