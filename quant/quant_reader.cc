#include "quant/quant_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/float_formats.h"
#include "quant/codes.h"
#include "quant/formats.h"
#include "quant/in_parts.h"

namespace tutti::quant {
namespace {

using model::PackedFormat;
using model::QuantPart;
using model::Range;
using model::RefuseTensor;
using model::StoredType;

float ScaleAt(std::span<const std::byte> bytes, StoredType type, int64_t index) {
  const std::optional<DType> own = model::ComputeType(type);
  if (own.has_value()) return kernels::LoadAsF32(bytes.data(), *own, index);
  const auto code = static_cast<uint8_t>(bytes[static_cast<size_t>(index)]);
  if (type != StoredType::kF8E4M3) return E8m0ToF32(code);
  return IsE4m3Nan(code) ? std::numeric_limits<float>::quiet_NaN() : E4m3ToF32(code);
}

absl::Status CheckScale(const std::string& name, int64_t index, float scale) {
  if (std::isfinite(scale) && scale > 0) return absl::OkStatus();
  return RefuseTensor(name, absl::StrCat("element ", index, " is ", scale, ", which is no scale"));
}

// Whether 16 bits are a positive number, of a type whose infinity has the bits `infinity`.
bool IsScale(uint16_t bits, uint16_t infinity) { return bits - 1u < infinity - 1u; }

// Scales [rows, groups] of `outputs`, which may share stored rows.
absl::Status DecodeScales(const Decoding& decoding, Range outputs, QuantMatrix* to) {
  const ReadPart& read = *decoding.Find(QuantPart::kScales);
  const StoredType type = read.stored.tensor->dtype;
  const bool by_input = decoding.config.method == model::Method::kGptq ||
                        decoding.config.method == model::Method::kAwq;
  const int64_t first = (by_input ? read.stored.cols : read.stored.rows).begin;
  const int64_t step = by_input ? read.stored.cols.size() : 1;
  // As they are held: one of 128 weights is worth few instructions.
  const bool as_held = type == StoredType::kF16 || type == StoredType::kBF16;
  const uint16_t infinity = type == StoredType::kF16 ? 0x7C00 : 0x7F80;
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    const int64_t row = n / decoding.matrix.block_rows - first;
    int64_t index = by_input ? row : row * to->groups;
    int64_t at = (n - decoding.rows.begin) * to->groups;
    for (int64_t g = 0; g < to->groups; ++g, index += step, ++at) {
      if (as_held) {
        uint16_t bits;
        std::memcpy(&bits, read.bytes.data() + 2 * index, sizeof(bits));
        std::memcpy(to->scales.data() + 2 * at, &bits, sizeof(bits));
        if (IsScale(bits, infinity)) continue;
      }
      const float scale = ScaleAt(read.bytes, type, index);
      TUTTI_RETURN_IF_ERROR(CheckScale(decoding.NameOf(QuantPart::kScales), index, scale));
      kernels::StoreFromF32(to->scales.data(), to->scale_type, at, scale);
    }
  }
  return absl::OkStatus();
}

// [rows, scales of 16 inputs] of one group of all inputs, whose scale is that of the whole: by it
// compressed-tensors divides and ModelOpt multiplies.
absl::Status DecodeInnerScales(const Decoding& decoding, QuantMatrix* to) {
  const std::string name = decoding.NameOf(QuantPart::kWhole);
  const ReadPart& read = *decoding.Find(QuantPart::kWhole);
  const float stored = ScaleAt(read.bytes, read.stored.tensor->dtype, 0);
  TUTTI_RETURN_IF_ERROR(CheckScale(name, 0, stored));
  const float whole = name.ends_with("weight_global_scale") ? 1 / stored : stored;
  if (!std::isfinite(whole)) {
    return RefuseTensor(name, absl::StrCat("is ", stored, ", too small to divide by"));
  }
  to->groups = 1;
  for (int64_t n = 0; n < to->out; ++n) {
    kernels::StoreFromF32(to->scales.data(), to->scale_type, n, whole);
  }
  to->group_of.assign(static_cast<size_t>(to->in), 0);
  // Packers round the scale of weights that are far smaller than the tensor's largest to 0.
  const std::span<const std::byte> codes = decoding.Find(QuantPart::kScales)->bytes;
  const auto* const first = reinterpret_cast<const uint8_t*>(codes.data());
  to->inner.assign(first, first + codes.size());
  const auto bad =
      std::find_if(to->inner.begin(), to->inner.end(), [](uint8_t code) { return code >= 0x7F; });
  if (bad == to->inner.end()) return absl::OkStatus();
  const int64_t index = bad - to->inner.begin();
  return CheckScale(decoding.NameOf(QuantPart::kScales), index,
                    ScaleAt(codes, StoredType::kF8E4M3, index));
}

// A group for every input of the whole matrix, each with as many as every other.
absl::StatusOr<std::vector<int64_t>> ReadGroups(const Decoding& decoding, const ReadPart& read) {
  const std::string name = decoding.NameOf(QuantPart::kGroups);
  const int64_t in = decoding.matrix.in, groups = decoding.matrix.groups;
  const bool wide = read.stored.tensor->dtype == StoredType::kI64;
  std::vector<int64_t> group_of(static_cast<size_t>(in)), inputs(static_cast<size_t>(groups));
  for (int64_t k = 0; k < in; ++k) {
    int64_t group = 0;
    int32_t narrow = 0;
    if (wide) {
      std::memcpy(&group, read.bytes.data() + k * 8, sizeof(group));
    } else {
      std::memcpy(&narrow, read.bytes.data() + k * 4, sizeof(narrow));
      group = narrow;
    }
    if (group < 0 || group >= groups) {
      return RefuseTensor(name, absl::StrCat("element ", k, " is group ", group, " of ", groups));
    }
    if (!decoding.config.any_order && group != k / decoding.matrix.group_size) {
      return RefuseTensor(
          name, absl::StrCat("element ", k, " is group ", group, ", expected ",
                             k / decoding.matrix.group_size,
                             ": config.json says no desc_act (or actorder) that would allow it"));
    }
    ++inputs[static_cast<size_t>(group)];
    group_of[static_cast<size_t>(k)] = group;
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t has = inputs[static_cast<size_t>(group)];
    if (has * groups == in) continue;
    return RefuseTensor(
        name, absl::StrCat("group ", group, " has ", has, " inputs, others have ", in / groups));
  }
  return group_of;
}

absl::Status DecodeGroups(const Decoding& decoding, QuantMatrix* to) {
  std::vector<int64_t> all;
  if (const ReadPart* read = decoding.Find(QuantPart::kGroups); read != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(all, ReadGroups(decoding, *read));
  }
  for (int64_t k = decoding.cols.begin; k < decoding.cols.end; ++k) {
    to->group_of.push_back(static_cast<int32_t>(all.empty() ? k / decoding.matrix.group_size
                                                            : all[static_cast<size_t>(k)]));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const Decoding& decoding) {
  const ReadPart* const read = decoding.Find(QuantPart::kShape);
  if (read == nullptr) return absl::OkStatus();
  const bool wide = read->stored.tensor->dtype == StoredType::kI64;
  int64_t sides[2] = {};
  for (int i = 0; i < 2; ++i) {
    int32_t narrow = 0;
    std::memcpy(wide ? static_cast<void*>(&sides[i]) : &narrow,
                read->bytes.data() + i * (wide ? 8 : 4), wide ? 8 : 4);
    if (!wide) sides[i] = narrow;
  }
  if (sides[0] == decoding.matrix.out && sides[1] == decoding.matrix.in) return absl::OkStatus();
  return RefuseTensor(decoding.NameOf(QuantPart::kShape),
                      absl::StrCat("is [", sides[0], ", ", sides[1], "], expected [",
                                   decoding.matrix.out, ", ", decoding.matrix.in, "]"));
}

absl::Status DecodeCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  switch (decoding.config.method) {
    case model::Method::kGptq:
      DecodeGptqCodes(decoding, outputs, codes);
      return absl::OkStatus();
    case model::Method::kAwq:
      DecodeAwqCodes(decoding, outputs, codes);
      return absl::OkStatus();
    case model::Method::kFp8:
      return DecodeE4m3Codes(decoding, outputs, codes);
    case model::Method::kCompressedTensors:
    case model::Method::kModelOpt:
      break;
  }
  switch (decoding.config.packed) {
    case PackedFormat::kFloat:
      return DecodeE4m3Codes(decoding, outputs, codes);
    case PackedFormat::kInt:
      DecodeInt8Codes(decoding, outputs, codes);
      break;
    case PackedFormat::kPacked:
      DecodePackedCodes(decoding, outputs, codes);
      break;
    case PackedFormat::kMxfp4:
    case PackedFormat::kNvfp4:
      DecodeFp4Codes(decoding, outputs, codes);
      break;
    case PackedFormat::kNone:
      break;
  }
  return absl::OkStatus();
}

// What `outputs` have of their own; others may be decoded at the same time.
absl::Status DecodeOutputs(const Decoding& decoding, Range outputs, QuantMatrix* to) {
  if (!kernels::HasInnerScales(to->kind)) {
    TUTTI_RETURN_IF_ERROR(DecodeScales(decoding, outputs, to));
  }
  if (decoding.Find(QuantPart::kZeros) != nullptr) {
    TUTTI_RETURN_IF_ERROR(DecodeZeros(decoding, outputs, to->zeros.data()));
  }
  if (to->codes.empty()) return absl::OkStatus();
  return DecodeCodes(decoding, outputs, to->codes.data());
}

// Outputs and inputs that only the contents of a tensor say.
absl::StatusOr<std::pair<int64_t, int64_t>> ShapeSaid(const TensorSource& source,
                                                      const std::string& prefix) {
  const std::string name = prefix + ".weight_shape";
  const model::TensorInfo* const found = source.Find(name);
  if (found == nullptr) return std::pair<int64_t, int64_t>(0, 0);
  if (found->dtype != StoredType::kI32 && found->dtype != StoredType::kI64) {
    return RefuseTensor(name,
                        absl::StrCat("has dtype ", std::string(model::StoredTypeName(found->dtype)),
                                     ", expected I32 or I64"));
  }
  const int64_t element = model::StoredTypeBytes(found->dtype);
  if (found->bytes != 2 * element) {
    return RefuseTensor(name,
                        absl::StrCat("has shape ", found->ShapeText(), ", expected 2 elements"));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, source.Read(name));
  int64_t sides[2] = {};
  for (int i = 0; i < 2; ++i) {
    int32_t narrow = 0;
    if (element == 8) {
      std::memcpy(&sides[i], bytes.data() + 8 * i, 8);
    } else {
      std::memcpy(&narrow, bytes.data() + 4 * i, 4);
      sides[i] = narrow;
    }
  }
  return std::pair(sides[0], sides[1]);
}

}  // namespace

const ReadPart* Decoding::Find(QuantPart part) const {
  for (const ReadPart& read : parts) {
    if (read.stored.part == part) return &read;
  }
  return nullptr;
}

std::string Decoding::NameOf(QuantPart part) const { return Find(part)->stored.tensor->name; }

bool Decoding::has_zeros() const {
  return Find(QuantPart::kZeros) != nullptr && config.has_zeros();
}

absl::StatusOr<QuantMatrix> DecodeQuantMatrix(const model::QuantisedMatrix& matrix,
                                              const model::QuantConfig& config, Range rows,
                                              Range cols, std::span<const ReadPart> parts,
                                              int threads, SpareCodes* spare) {
  const Decoding decoding = {matrix, config, rows, cols, parts};
  QuantMatrix made;
  made.kind = config.kind();
  made.out = rows.size();
  made.in = cols.size();
  made.groups = kernels::HasInnerScales(made.kind) ? 1 : matrix.groups;
  TUTTI_RETURN_IF_ERROR(CheckShape(decoding));
  made.first_input = cols.begin;
  made.scale_type = model::HeldScaleType(config, matrix);
  made.scales.resize(static_cast<size_t>(made.out * made.groups * DTypeBytes(made.scale_type)));
  if (kernels::HasInnerScales(made.kind)) {
    TUTTI_RETURN_IF_ERROR(DecodeInnerScales(decoding, &made));
  } else {
    TUTTI_RETURN_IF_ERROR(DecodeGroups(decoding, &made));
  }
  if (decoding.has_zeros()) made.zeros.resize(static_cast<size_t>(made.out * matrix.groups));
  const auto codes = static_cast<size_t>(made.out * made.in);
  made.codes = spare == nullptr ? std::vector<uint8_t>(codes) : spare->Take(codes);
  TUTTI_RETURN_IF_ERROR(InParts(made.out, threads, [&](int64_t begin, int64_t end) {
    return DecodeOutputs(decoding, {rows.begin + begin, rows.begin + end}, &made);
  }));
  return made;
}

absl::StatusOr<QuantMatrix> ReadQuantMatrix(const TensorSource& source, const std::string& prefix,
                                            const model::QuantConfig& config) {
  const auto find = [&](const std::string& name) { return source.Find(name); };
  std::pair<int64_t, int64_t> said(0, 0);
  if (config.packed == PackedFormat::kPacked) {
    TUTTI_ASSIGN_OR_RETURN(said, ShapeSaid(source, prefix));
  }
  TUTTI_ASSIGN_OR_RETURN(const model::QuantisedMatrix matrix,
                         model::FindQuantisedMatrix(find, prefix, config, said.first, said.second));
  std::vector<std::vector<std::byte>> bytes;
  std::vector<ReadPart> parts;
  for (const model::StoredPart& stored : matrix.tensors) {
    TUTTI_ASSIGN_OR_RETURN(bytes.emplace_back(), source.Read(stored.tensor->name));
    parts.push_back({stored, bytes.back()});
  }
  return DecodeQuantMatrix(matrix, config, {0, matrix.out}, {0, matrix.in}, parts);
}

}  // namespace tutti::quant
