// The tensors that a quantised matrix is stored in, found and checked by their types and shapes,
// and which of their bytes a part of the matrix needs. What these stand for: quant/quant_reader.h.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "model/checkpoint.h"
#include "model/chunk_reader.h"
#include "model/quant_config.h"
#include "model/range.h"

namespace tutti::model {

// Null: there is none of that name.
using TensorFinder = absl::FunctionRef<const TensorInfo*(const std::string& name)>;

enum class QuantPart : uint8_t {
  kCodes,
  kScales,
  kZeros,   // packed zero points
  kGroups,  // the group of each input
  kShape,   // [out, in]
  kWhole,   // one scale of the whole matrix
};

// Rows by columns of one tensor's elements.
struct StoredPart {
  QuantPart part = QuantPart::kCodes;
  const TensorInfo* tensor = nullptr;
  Range rows, cols;
  int64_t tensor_cols = 0;
  TensorSlice slice() const;
};

// One matrix.
struct QuantisedMatrix {
  std::string prefix;
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 0;
  int64_t block_rows = 1;  // outputs that share a row of stored scales
  int64_t group_size = 0;  // inputs of a group where groups are in order, the last perhaps fewer
  std::vector<StoredPart> tensors;  // whole

  const StoredPart* Find(QuantPart part) const;
};

// "model.layers.0.mlp.up_proj" of that with ".weight" behind it.
std::string QuantPrefix(std::string_view weight_name);

// Names that tensors of such a matrix may have.
std::vector<std::string> QuantisedNames(const std::string& prefix);

// Whether the tensors of `prefix` are those of a quantised matrix: `prefix`.qweight,
// .weight_packed, or .weight with scales.
bool IsQuantised(TensorFinder find, const std::string& prefix);

// INVALID_ARGUMENT, with the tensor and the reason: a companion is missing or has another type or
// shape, groups do not divide the inputs. `out`, `in`: 0 where the tensors alone say it.
// REQUIRES: IsQuantised
absl::StatusOr<QuantisedMatrix> FindQuantisedMatrix(TensorFinder find, const std::string& prefix,
                                                    const QuantConfig& config, int64_t out,
                                                    int64_t in);

// What outputs `rows` and inputs `cols` need, in the order of matrix.tensors: scales and zero
// points of all groups.
std::vector<StoredPart> PartsOf(const QuantisedMatrix& matrix, const QuantConfig& config,
                                Range rows, Range cols);

// The type in which a matrix's scales are held: powers of two exactly in bf16. Of NVFP4 that of
// the scale of the whole, as its inner ones are codes.
DType HeldScaleType(const QuantConfig& config, const QuantisedMatrix& matrix);

// INVALID_ARGUMENT "tensor "NAME": why".
absl::Status RefuseTensor(std::string_view tensor, std::string_view why);

}  // namespace tutti::model
