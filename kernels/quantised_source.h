// Quantised weights as a backend takes them: codes, scales, and the group that each input belongs
// to (docs/decisions/0081-sums-of-groups.md).
//
//   weight[n][k] = scale[n][group of k] * (value of code[n][k] - zero[n][group of k])
//
// The product of a row x with output n, over the inputs of a leaf:
//
//   strip  the inputs of one group within the leaf, in ascending order, filled up with zeros to a
//            multiple of kStripMultiple
//   p        sum of x[k] * (value - zero) over a strip from +0 on, in the order of the numerics
//            class
//   sum      from +0 on, fma(p, scale, sum) for each strip, groups ascending, in f32
//
// and leaves are added in their tree. A value less its zero point is exact in bf16.
//
// Of a kind with inner scales a value is multiplied by that of its input, which is exact in bf16
// too: it has six digits at most. In a strip the inputs of each inner scale are filled up with
// zeros to kInnerInputs of them, behind its last one only to kStripMultiple.
//
// A source may round rows (W8A8): a row becomes integers first, by row_integers.h, of the largest
// magnitude of the whole row, and
//
//   p        (f32 of the sum of integer * (value - zero) over a strip) * the row's scale
//
// in every class: the sum is exact.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/code_kind.h"
#include "kernels/quantised_bytes.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

// Where a part has none of its own.
constexpr uint8_t MiddleZero(CodeKind kind) {
  return kind == CodeKind::kInt4 ? 8 : kind == CodeKind::kInt8 ? 128 : 0;
}
// The value of a code less its zero point: exact in bf16.  REQUIRES: the code is one of the kind
float CodeValue(CodeKind kind, uint8_t code, uint8_t zero);
// The value of an inner scale.
float InnerScale(uint8_t code);

// Rows of one matrix, in the checkpoint's memory (host).
struct QuantisedPart {
  int64_t rows = 0;
  const uint8_t* codes = nullptr;     // [rows, in], a byte each
  int64_t code_stride = 0;            // bytes from a row to the next
  const std::byte* scales = nullptr;  // [rows, groups] of QuantisedSource::scale_type
  const uint8_t* zeros = nullptr;     // [rows, groups]; null: MiddleZero
  int64_t group_stride = 0;           // elements from a row's scales, and zeros, to the next's
  std::span<const int32_t> group_of;  // [in]
  // [rows, inner scales of the whole matrix]: positive numbers in e4m3. Null: the kind has none.
  const uint8_t* inner = nullptr;
  int64_t inner_stride = 0;  // from a row's to the next's
  // Parts of one section have the same group_of; each section begins at a multiple of a backend's
  // rows. Ascending.
  int32_t section = 0;
};

struct QuantisedSource {
  CodeKind kind = CodeKind::kInt4;
  DType scale_type = DType::kF32;
  // The type that the model computes in. f32: rows are multiplied as they are, in every class; else
  // as beside a weight in bf16.
  DType computed_in = DType::kBF16;
  bool rounds_rows = false;  // REQUIRES: kInt8 without zero points, one group
  int64_t in_features = 0;
  int64_t groups = 0;
  int64_t first_input = 0;  // of the whole matrix, whose inner scales are of 16 inputs from 0 on
  std::vector<QuantisedPart> parts;  // stacked in order; all with zeros, or none
  std::vector<int64_t> leaf_begin;   // as WeightSource's
  // Memory that is held at least, as was planned where strips depend on the checkpoint's
  // contents; and inputs, filled up, for which there is work space.
  int64_t bytes_at_least = 0;
  int64_t padded_at_least = 0;
  std::string name;  // for errors

  bool has_zeros() const { return !parts.empty() && parts.front().zeros != nullptr; }
  int64_t out_features() const;
  // The inner scale of an input, in a row of them.
  int64_t inner_of(int64_t input) const { return (first_input + input) / kInnerInputs; }
};

// Inputs of one group within a leaf.
struct Strip {
  int32_t group = 0;
  int64_t begin = 0;  // in Strips::order
  int64_t count = 0;
  int64_t padded() const { return FilledUp(count); }
};

// How the inputs of a section are divided.
struct Strips {
  std::vector<int32_t> order;       // inputs, leaf by leaf, strip by strip; -1: a zero
  std::vector<Strip> strips;        // leaf by leaf
  std::vector<int64_t> leaf_begin;  // [leaves + 1]: the first strip of each leaf
  bool in_order = true;             // `order` is 0, 1, 2, ...
  int64_t padded() const;           // inputs, filled up
  int64_t leaves() const { return static_cast<int64_t>(leaf_begin.size()) - 1; }
};
// Of a part's inputs, whose groups are `group_of`.
// REQUIRES: leaf_begin covers group_of, whose elements are not negative
Strips StripsOf(const QuantisedSource& source, std::span<const int64_t> leaf_begin,
                std::span<const int32_t> group_of);

}  // namespace tutti::kernels
