// The memory of quantised weights in the cpu backend's layout (cpu/quantised_layout.h) and in that
// of GPUs (cuda/codes_layout.h), for plans too: arithmetic alone.
//
// Pure.  Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/code_kind.h"

namespace tutti::kernels {

// Strips of kernels/quantised_source.h are filled up to a multiple of so many inputs.
inline constexpr int64_t kStripMultiple = 32;
// Inputs of an inner scale.
inline constexpr int64_t kInnerInputs = 16;
// Outputs that lie together.
inline constexpr int64_t kQuantisedColumns = 64;

constexpr int64_t CodeBits(CodeKind kind) {
  return kind == CodeKind::kInt8 || kind == CodeKind::kE4m3 ? 8 : 4;
}
constexpr bool HasInnerScales(CodeKind kind) { return kind == CodeKind::kNvfp4; }

// How the inputs of a matrix are divided.
struct StripCounts {
  int64_t strips = 0;
  int64_t padded = 0;  // inputs, filled up ones counted
  // Inputs are not in order, or filled up elsewhere than behind a leaf.
  bool gathered = false;
  StripCounts& operator+=(const StripCounts& other) {
    strips += other.strips;
    padded += other.padded;
    gathered = gathered || other.gathered;
    return *this;
  }
};

constexpr int64_t FilledUp(int64_t inputs) {
  return (inputs + kStripMultiple - 1) / kStripMultiple * kStripMultiple;
}

// The groups of inputs that share a scale.
struct GroupShape {
  CodeKind kind = CodeKind::kInt4;
  int64_t size = 0;  // of a kind with inner scales all inputs
  bool any_order = false;
};

// Of the leaf [begin, end) of a matrix with `in` inputs, in groups that are in order, or of any
// inputs. Then of a leaf that is not the whole matrix the most that there can be.
inline StripCounts CountStrips(int64_t in, GroupShape group, int64_t begin, int64_t end) {
  StripCounts counts;
  const int64_t group_size = group.size;
  counts.gathered = group.any_order;
  if (HasInnerScales(group.kind)) {
    if (begin == end) return counts;
    const int64_t inner = (end + kInnerInputs - 1) / kInnerInputs - begin / kInnerInputs;
    return {.strips = 1,
            .padded = FilledUp(inner * kInnerInputs),
            .gathered = begin % kInnerInputs != 0};
  }
  if (group.any_order && end - begin < in) {
    counts.strips = std::min((in + group_size - 1) / group_size, end - begin);
    counts.padded =
        (end - begin + (kStripMultiple - 1) * counts.strips) / kStripMultiple * kStripMultiple;
    return counts;
  }
  for (int64_t at = begin; at < end; ++counts.strips) {
    const int64_t next = std::min(end, (at / group_size + 1) * group_size);
    counts.padded += FilledUp(next - at);
    if (next < end && FilledUp(next - at) != next - at) counts.gathered = true;
    at = next;
  }
  return counts;
}

// Of `rows` outputs that begin a group of kQuantisedColumns.
constexpr int64_t QuantisedBytes(CodeKind kind, DType scale_type, bool has_zeros, int64_t rows,
                                 StripCounts counts) {
  const int64_t groups = (rows + kQuantisedColumns - 1) / kQuantisedColumns;
  const int64_t beside = DTypeBytes(scale_type) + (has_zeros ? 1 : 0);
  const int64_t inner = HasInnerScales(kind) ? counts.padded / kInnerInputs : 0;
  return groups * kQuantisedColumns *
         (counts.strips * beside + inner + counts.padded * CodeBits(kind) / 8);
}

// What GPUs hold behind the codes of a section: the first chunk of each strip and, of rows that are
// gathered, the place of each of their inputs.
constexpr int64_t GpuTableBytes(StripCounts counts) {
  constexpr int64_t kUnit = 64;
  const int64_t numbers = counts.strips + 1 + (counts.gathered ? counts.padded : 0);
  return (numbers * int64_t{sizeof(int32_t)} + kUnit - 1) / kUnit * kUnit;
}

}  // namespace tutti::kernels
