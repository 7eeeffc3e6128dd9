#include "model/quantised_tensors.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/quantised_bytes.h"
#include "model/json_document.h"

namespace tutti::model {
namespace {

constexpr StoredType kWordTypes[] = {StoredType::kI32};
constexpr StoredType kIntegerTypes[] = {StoredType::kI32, StoredType::kI64};
constexpr StoredType kE4m3Types[] = {StoredType::kF8E4M3};
constexpr StoredType kInt8Types[] = {StoredType::kI8};
constexpr StoredType kByteTypes[] = {StoredType::kU8};
constexpr StoredType kScaleTypes[] = {StoredType::kF32, StoredType::kF16, StoredType::kBF16,
                                      StoredType::kF8E8M0, StoredType::kU8};
// The most outputs or inputs of a matrix whose tensors say them.
constexpr int64_t kSideMax = int64_t{1} << 31;

int64_t Parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Finds and checks the tensors of one matrix.
class MatrixFinder {
 public:
  MatrixFinder(TensorFinder find, const std::string& prefix, const QuantConfig& config)
      : find_(find), config_(config) {
    matrix_.prefix = prefix;
  }

  absl::StatusOr<QuantisedMatrix> Run(int64_t out, int64_t in) {
    matrix_.out = out;
    matrix_.in = in;
    TUTTI_RETURN_IF_ERROR(RunLayout());
    if ((out > 0 && matrix_.out != out) || (in > 0 && matrix_.in != in)) {
      return Refuse(CodesName(), absl::StrCat("is a matrix of [", matrix_.out, ", ", matrix_.in,
                                              "], expected [", out, ", ", in, "]"));
    }
    return std::move(matrix_);
  }

 private:
  std::string NameOf(std::string_view part) const {
    return absl::StrCat(matrix_.prefix, ".", std::string(part));
  }
  bool Has(std::string_view part) const { return find_(NameOf(part)) != nullptr; }
  absl::Status Refuse(std::string_view part, std::string_view why) const {
    return RefuseTensor(NameOf(part), why);
  }
  const char* CodesName() const {
    return Has("qweight") ? "qweight" : Has("weight_packed") ? "weight_packed" : "weight";
  }

  absl::Status RunLayout() {
    switch (config_.method) {
      case Method::kGptq:
        return Gptq();
      case Method::kAwq:
        return Awq();
      case Method::kFp8:
        return Fp8(Has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale");
      case Method::kCompressedTensors:
      case Method::kModelOpt:
        break;
    }
    switch (config_.packed) {
      case PackedFormat::kFloat:
        return Fp8("weight_scale");
      case PackedFormat::kInt:
        return Int8();
      case PackedFormat::kPacked:
        return Packed();
      case PackedFormat::kMxfp4:
      case PackedFormat::kNvfp4:
        return Fp4();
      case PackedFormat::kNone:
        break;
    }
    return absl::InvalidArgumentError(absl::StrCat(matrix_.prefix, ": no layout is known"));
  }

  // The tensor `name` with one of these types.
  absl::StatusOr<const TensorInfo*> Require(std::string_view name,
                                            std::span<const StoredType> types) const {
    const TensorInfo* const found = find_(NameOf(name));
    if (found == nullptr) return Refuse(name, "is missing");
    if (std::find(types.begin(), types.end(), found->dtype) != types.end()) return found;
    const std::string wanted = absl::StrJoin(types, " or ", [](std::string* out, StoredType type) {
      absl::StrAppend(out, std::string(StoredTypeName(type)));
    });
    return Refuse(name, absl::StrCat("has dtype ", std::string(StoredTypeName(found->dtype)),
                                     ", expected ", wanted));
  }
  void Add(QuantPart part, const TensorInfo* tensor, int64_t rows, int64_t cols) {
    matrix_.tensors.push_back({part, tensor, {0, rows}, {0, cols}, cols});
  }
  // A matrix of any shape.
  absl::StatusOr<const TensorInfo*> AddCodes(std::string_view name,
                                             std::span<const StoredType> types) {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const found, Require(name, types));
    if (found->shape.size() != 2 || found->shape[0] < 1 || found->shape[1] < 1) {
      return Refuse(name, absl::StrCat("has shape ", found->ShapeText(), ", not [a, b]"));
    }
    Add(QuantPart::kCodes, found, found->shape[0], found->shape[1]);
    return found;
  }
  // One of this shape.
  absl::Status AddShaped(QuantPart part, std::string_view name, std::span<const StoredType> types,
                         int64_t rows, int64_t cols) {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const found, Require(name, types));
    if (found->shape != std::vector<int64_t>{rows, cols}) {
      return Refuse(name, absl::StrCat("has shape ", found->ShapeText(), ", expected [", rows, ", ",
                                       cols, "]"));
    }
    Add(part, found, rows, cols);
    return absl::OkStatus();
  }
  // One of so many elements: [n], [n, 1] and, for one, [] are the same.
  absl::Status AddCounted(QuantPart part, std::string_view name, std::span<const StoredType> types,
                          int64_t rows, int64_t cols) {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const found, Require(name, types));
    if (found->bytes / StoredTypeBytes(found->dtype) != rows * cols) {
      return Refuse(name, absl::StrCat("has shape ", found->ShapeText(), ", expected ", rows * cols,
                                       " elements"));
    }
    Add(part, found, rows, cols);
    return absl::OkStatus();
  }
  absl::Status Divide(std::string_view name, int64_t group_size) {
    matrix_.group_size = group_size == -1 ? matrix_.in : group_size;
    if (matrix_.in % matrix_.group_size != 0) {
      return Refuse(name, absl::StrCat("has ", matrix_.in, " inputs, which groups of ",
                                       matrix_.group_size, " do not divide"));
    }
    matrix_.groups = matrix_.in / matrix_.group_size;
    return absl::OkStatus();
  }
  absl::Status AddGroups(std::string_view name) {
    if (!Has(name)) return absl::OkStatus();
    return AddCounted(QuantPart::kGroups, name, kIntegerTypes, 1, matrix_.in);
  }

  absl::Status Gptq() {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const codes, AddCodes("qweight", kWordTypes));
    const int64_t per_word = 32 / config_.bits;
    matrix_.in = codes->shape[0] * per_word;
    matrix_.out = codes->shape[1];
    TUTTI_RETURN_IF_ERROR(Divide("qweight", config_.group_size));
    if (matrix_.out % per_word != 0) {
      return Refuse("qweight", absl::StrCat("has ", matrix_.out,
                                            " outputs, whose zero points fill no whole words"));
    }
    TUTTI_RETURN_IF_ERROR(
        AddShaped(QuantPart::kZeros, "qzeros", kWordTypes, matrix_.groups, matrix_.out / per_word));
    TUTTI_RETURN_IF_ERROR(
        AddCounted(QuantPart::kScales, "scales", kScaleTypes, matrix_.groups, matrix_.out));
    return AddGroups("g_idx");
  }

  absl::Status Awq() {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const codes, AddCodes("qweight", kWordTypes));
    matrix_.in = codes->shape[0];
    matrix_.out = codes->shape[1] * 8;
    TUTTI_RETURN_IF_ERROR(Divide("qweight", config_.group_size));
    TUTTI_RETURN_IF_ERROR(
        AddShaped(QuantPart::kZeros, "qzeros", kWordTypes, matrix_.groups, codes->shape[1]));
    return AddCounted(QuantPart::kScales, "scales", kScaleTypes, matrix_.groups, matrix_.out);
  }

  // The shape of the scales says which outputs and inputs share one; config.json must not
  // contradict it.
  absl::Status Fp8(std::string_view scale) {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const codes, AddCodes("weight", kE4m3Types));
    matrix_.out = codes->shape[0];
    matrix_.in = codes->shape[1];
    const TensorInfo* const found = find_(NameOf(scale));
    if (found == nullptr) return Refuse(scale, "is missing");
    const std::vector<int64_t>& has = found->shape;
    const int64_t rows = config_.block_rows, columns = config_.block_columns;
    using Shape = std::vector<int64_t>;
    const bool one = has.empty() || has == Shape{1} || has == Shape{1, 1};
    const bool one_block = matrix_.out <= rows && matrix_.in <= columns;
    if (one && (rows == 0 || one_block)) {
      matrix_.block_rows = matrix_.out;
      matrix_.group_size = matrix_.in;
    } else if (rows == 0 && (has == Shape{matrix_.out, 1} || has == Shape{matrix_.out})) {
      matrix_.group_size = matrix_.in;
    } else if (rows > 0 && has == Shape{Parts(matrix_.out, rows), Parts(matrix_.in, columns)}) {
      matrix_.block_rows = rows;
      matrix_.group_size = columns;
    } else {
      const std::string wanted = rows > 0 ? absl::StrCat("blocks of [", rows, ", ", columns, "]")
                                          : "one for all or one for each output";
      return Refuse(scale, absl::StrCat("has shape ", found->ShapeText(), ", which is not ", wanted,
                                        " of [", matrix_.out, ", ", matrix_.in, "]"));
    }
    matrix_.groups = Parts(matrix_.in, matrix_.group_size);
    return AddCounted(QuantPart::kScales, scale, kScaleTypes,
                      Parts(matrix_.out, matrix_.block_rows), matrix_.groups);
  }

  absl::Status Int8() {
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const codes, AddCodes("weight", kInt8Types));
    matrix_.out = codes->shape[0];
    matrix_.in = codes->shape[1];
    const TensorInfo* const scale = find_(NameOf("weight_scale"));
    using Shape = std::vector<int64_t>;
    const bool one = scale != nullptr && (scale->shape.empty() || scale->shape == Shape{1} ||
                                          scale->shape == Shape{1, 1});
    matrix_.block_rows = one ? matrix_.out : 1;
    TUTTI_RETURN_IF_ERROR(Divide("weight", -1));
    TUTTI_RETURN_IF_ERROR(
        AddCounted(QuantPart::kScales, "weight_scale", kScaleTypes, one ? 1 : matrix_.out, 1));
    if (!Has("weight_zero_point")) return absl::OkStatus();
    return Refuse("weight_zero_point",
                  "is not supported beside plain integers: their zero point is 0");
  }

  absl::Status Packed() {
    TUTTI_RETURN_IF_ERROR(AddCounted(QuantPart::kShape, "weight_shape", kIntegerTypes, 1, 2));
    const int64_t out = matrix_.out, in = matrix_.in;
    if (out < 1 || in < 1 || out > kSideMax || in > kSideMax) {
      return Refuse("weight_shape", absl::StrCat("is [", out, ", ", in, "]"));
    }
    const int64_t per_word = 32 / config_.bits;
    TUTTI_RETURN_IF_ERROR(
        AddShaped(QuantPart::kCodes, "weight_packed", kWordTypes, out, Parts(in, per_word)));
    TUTTI_RETURN_IF_ERROR(Divide("weight_packed", config_.group_size));
    TUTTI_RETURN_IF_ERROR(
        AddCounted(QuantPart::kScales, "weight_scale", kScaleTypes, out, matrix_.groups));
    TUTTI_RETURN_IF_ERROR(AddGroups("weight_g_idx"));
    if (config_.symmetric) return absl::OkStatus();
    return AddShaped(QuantPart::kZeros, "weight_zero_point", kWordTypes, Parts(out, per_word),
                     matrix_.groups);
  }

  absl::Status Fp4() {
    const bool mx = config_.packed == PackedFormat::kMxfp4;
    const char* const name = Has("weight_packed") ? "weight_packed" : "weight";
    TUTTI_ASSIGN_OR_RETURN(const TensorInfo* const codes, AddCodes(name, kByteTypes));
    matrix_.out = codes->shape[0];
    matrix_.in = 2 * codes->shape[1];
    TUTTI_RETURN_IF_ERROR(Divide(name, mx ? 32 : 16));
    if (mx) {
      if (const TensorInfo* const found = find_(NameOf("weight_scale"));
          found != nullptr && StoredTypeBytes(found->dtype) != 1) {
        return Refuse("weight_scale", "is not of powers of two, in U8 or F8_E8M0");
      }
      return AddCounted(QuantPart::kScales, "weight_scale", kScaleTypes, matrix_.out,
                        matrix_.groups);
    }
    TUTTI_RETURN_IF_ERROR(
        AddShaped(QuantPart::kScales, "weight_scale", kE4m3Types, matrix_.out, matrix_.groups));
    const bool divides = Has("weight_global_scale");
    return AddCounted(QuantPart::kWhole, divides ? "weight_global_scale" : "weight_scale_2",
                      kScaleTypes, 1, 1);
  }

  const TensorFinder find_;
  const QuantConfig& config_;
  QuantisedMatrix matrix_;
};

// The words, or bytes of two codes, that hold [begin, end).
Range Whole(Range range, int64_t per_element) {
  return {range.begin / per_element, Parts(range.end, per_element)};
}

}  // namespace

DType HeldScaleType(const QuantConfig& config, const QuantisedMatrix& matrix) {
  if (kernels::HasInnerScales(config.kind())) return DType::kF32;
  return ComputeType(matrix.Find(QuantPart::kScales)->tensor->dtype).value_or(DType::kBF16);
}

absl::Status RefuseTensor(std::string_view tensor, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(tensor), ": ", std::string(why)));
}

TensorSlice StoredPart::slice() const {
  const int64_t element = StoredTypeBytes(tensor->dtype);
  return {.begin = (rows.begin * tensor_cols + cols.begin) * element,
          .rows = cols.size() == 0 ? 0 : rows.size(),
          .row_bytes = cols.size() * element,
          .stride = tensor_cols * element};
}

const StoredPart* QuantisedMatrix::Find(QuantPart part) const {
  for (const StoredPart& stored : tensors) {
    if (stored.part == part) return &stored;
  }
  return nullptr;
}

std::string QuantPrefix(std::string_view weight_name) {
  weight_name.remove_suffix(weight_name.ends_with(".weight") ? sizeof(".weight") - 1 : 0);
  return std::string(weight_name);
}

std::vector<std::string> QuantisedNames(const std::string& prefix) {
  std::vector<std::string> names;
  for (const char* part :
       {"qweight", "qzeros", "scales", "g_idx", "weight", "weight_packed", "weight_scale",
        "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point",
        "weight_g_idx", "weight_shape", "bias"}) {
    names.push_back(absl::StrCat(prefix, ".", part));
  }
  return names;
}

bool IsQuantised(TensorFinder find, const std::string& prefix) {
  const auto has = [&](const char* part) {
    return find(absl::StrCat(prefix, ".", part)) != nullptr;
  };
  if (has("qweight") || has("weight_packed")) return true;
  return has("weight") && (has("weight_scale") || has("weight_scale_inv"));
}

absl::StatusOr<QuantisedMatrix> FindQuantisedMatrix(TensorFinder find, const std::string& prefix,
                                                    const QuantConfig& config, int64_t out,
                                                    int64_t in) {
  return MatrixFinder(find, prefix, config).Run(out, in);
}

std::vector<StoredPart> PartsOf(const QuantisedMatrix& matrix, const QuantConfig& config,
                                Range rows, Range cols) {
  const int64_t per_word = 32 / config.bits;
  const bool by_input = config.method == Method::kGptq || config.method == Method::kAwq;
  std::vector<StoredPart> parts = matrix.tensors;
  for (StoredPart& stored : parts) {
    const bool words = stored.tensor->dtype == StoredType::kI32;
    switch (stored.part) {
      case QuantPart::kCodes:
        if (config.method == Method::kGptq) {
          stored.rows = Whole(cols, per_word), stored.cols = rows;
        } else if (config.method == Method::kAwq) {
          stored.rows = cols, stored.cols = Whole(rows, per_word);
        } else {
          const int64_t in_one = words ? per_word : matrix.in / stored.tensor_cols;
          stored.rows = rows, stored.cols = Whole(cols, in_one);
        }
        break;
      case QuantPart::kScales:
        (by_input ? stored.cols : stored.rows) = Whole(rows, matrix.block_rows);
        break;
      case QuantPart::kZeros:
        (by_input ? stored.cols : stored.rows) = Whole(rows, per_word);
        break;
      case QuantPart::kGroups:
      case QuantPart::kShape:
      case QuantPart::kWhole:
        break;
    }
  }
  return parts;
}

}  // namespace tutti::model
