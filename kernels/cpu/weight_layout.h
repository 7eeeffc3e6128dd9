// Where the element (out n, in k) of a packed weight lies.
//
//   group  64 columns of out, padded with zero columns
//   leaf   the range of k summed alone; padded with one zero k to an even length
//   unit   16 columns by 2 consecutive k
//
//   bytes = [groups][leaf 0: pairs of k][4 units] [leaf 1: ...] ...
//
// A unit of bf16 is 16 words, one per column, of (even k, odd k): one cache line, one operand of
// the AVX-512 bf16 dot instruction, and a shift or a mask away from f32. A unit of f16 or f32 is 16
// even elements, then 16 odd ones. A product with one row reads groups from their first byte to
// their last, several at once, which is the fastest way to read memory.
//
// docs/decisions/0002-kernel-layouts.md has the reasons and the measurements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace tutti::kernels::cpu {

inline constexpr int64_t kUnitColumns = 16;
inline constexpr int64_t kGroupUnits = 4;
inline constexpr int64_t kGroupColumns = kUnitColumns * kGroupUnits;

// Bytes of a unit: 16 columns by 2.
constexpr int64_t UnitBytes(DType dtype) { return kUnitColumns * 2 * DTypeBytes(dtype); }

// Byte offset of (column, odd k?) inside a unit.
constexpr int64_t UnitOffset(DType dtype, int64_t column, bool odd) {
  if (dtype == DType::kBF16) return column * 4 + (odd ? 2 : 0);
  return ((odd ? kUnitColumns : 0) + column) * DTypeBytes(dtype);
}

// The leaves of a weight in pairs of k.
class LeafPairs {
 public:
  // `leaf_begin` as in WeightSource, never empty.
  explicit LeafPairs(std::span<const int64_t> leaf_begin);
  int64_t leaves() const { return static_cast<int64_t>(begin_.size()) - 1; }
  // First pair of a leaf within its group; begin(leaves()) is the total.
  int64_t begin(int64_t leaf) const { return begin_[leaf]; }
  int64_t total() const { return begin_.back(); }
  const int64_t* data() const { return begin_.data(); }

 private:
  std::vector<int64_t> begin_;
};

// Resident bytes of a packed weight: ceil(out / 64) * 64 * 2 * sum over leaves of ceil(length / 2)
// * element size. `leaf_begin` empty: one leaf.
int64_t PackedBytes(int64_t out_features, int64_t in_features, DType dtype,
                    std::span<const int64_t> leaf_begin);

}  // namespace tutti::kernels::cpu
