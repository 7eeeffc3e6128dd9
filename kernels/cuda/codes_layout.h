// Where the codes of a quantised weight lie on the device (kernels/quantised_source.h says what
// they are), and the arguments of products with them. Plain functions, the same on the device and
// in tests.
//
//   section  outputs whose inputs are divided alike, in units; padded to kQuantisedColumns outputs
//   unit     32 outputs, which a warp multiplies: two tiles of tensor-core instructions
//   chunk    32 inputs of one strip, as of other weights (layout.h); a strip is whole chunks
//   slot     place of an output in its unit: output g + 8 r has slot 4 g + r, so that lane 4 g + t
//            finds what belongs to its four outputs together
//
// A section is, one behind the other, each multiple of 64 bytes long:
//
//   codes   [unit][chunk][512 bytes, or 1,024 of 8 bits]
//   scales  [unit][strip][32 slots] as the file has them
//   zeros   [unit][strip][32 slots] bytes, where the weight has any
//   inner   [unit][chunk][2][32 slots] bytes, where the kind has inner scales: of 16 inputs each
//   tables  the first chunk of each strip and, behind the last, of none; where rows are gathered
//           the input of each packed k, -1 for a zero: 4 bytes each
//
// Lane 4 g + t holds inputs 8 t to 8 t + 7 of its outputs g, g + 8, g + 16 and g + 24: of 4 bits a
// word each, 16 bytes at lane * 16 of the chunk; of 8 bits two words each, of the first two outputs
// at lane * 16, of the others 512 bytes behind. In a word of 4 bits input 2 j is nibble j and input
// 2 j + 1 nibble j + 4; in one of 8 bits inputs 0 to 3 are bytes 1, 3, 0 and 2: a pair is what one
// mask leaves.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/code_kind.h"
#include "kernels/cuda/layout.h"
#include "kernels/quantised_bytes.h"

namespace tutti::kernels::cuda {

inline constexpr int kUnitOut = 32;
inline constexpr int kUnitTiles = kUnitOut / kTileOut;
inline constexpr int kRowsOfLane = kUnitOut / kPieceRows;  // outputs that a lane has codes of
static_assert(kStripMultiple == kChunkK && kInnerInputs * 2 == kChunkK);
static_assert(kQuantisedColumns % kUnitOut == 0);

// Words of a lane's codes of one output.
TUTTI_HOST_DEVICE constexpr int WordsOfOutput(CodeKind kind) {
  return static_cast<int>(CodeBits(kind)) / 4;
}
// Bytes of a unit's codes of one chunk.
TUTTI_HOST_DEVICE constexpr int UnitChunkBytes(CodeKind kind) {
  return kUnitOut * kChunkK * static_cast<int>(CodeBits(kind)) / 8;
}

TUTTI_HOST_DEVICE int32_t UnitSlot(int64_t out) {
  const auto within = static_cast<int32_t>(out % kUnitOut);
  return within % kPieceRows * kRowsOfLane + within / kPieceRows;
}

// First byte of the words with inputs 8 t to 8 t + 7 of a chunk, of one output of the section.
TUTTI_HOST_DEVICE int64_t CodeWordAt(CodeKind kind, int64_t out, int32_t chunk, int32_t t,
                                     int32_t chunks) {
  const int64_t unit = out / kUnitOut;
  const auto within = static_cast<int32_t>(out % kUnitOut);
  const int32_t lane = within % kPieceRows * 4 + t, row = within / kPieceRows;
  const int64_t first = (unit * chunks + chunk) * UnitChunkBytes(kind) + lane * 16;
  return first + (CodeBits(kind) == 4 ? row * 4 : row / 2 * 512 + row % 2 * 8);
}
// Bits by which input i of those is moved in its word, of which 8 bits have four inputs each.
TUTTI_HOST_DEVICE int32_t CodeShift(CodeKind kind, int32_t i) {
  if (CodeBits(kind) == 4) return (i / 2 + i % 2 * 4) * 4;
  return (i % 4 / 2 == 0 ? 1 : 0) * 8 + i % 2 * 16;
}

// A section's product. Rows are packed by ActivationIndex, in bf16, over the section's chunks.
struct CodesArgs {
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const uint8_t* zeros = nullptr;        // nullptr: MiddleZero
  const uint8_t* inner = nullptr;        // of kinds that have inner scales
  const int32_t* strip_chunk = nullptr;  // [strips + 1]
  const uint16_t* in = nullptr;
  // [rows, out_features]: the leaves are added up there; where LeafSumCount is not 0, those of leaf
  // l go to leaf_sums + l * leaf_stride instead.
  float* out = nullptr;
  int64_t out_stride = 0;
  float* leaf_sums = nullptr;
  int64_t leaf_stride = 0, leaf_row_stride = 0;
  int32_t rows = 0;
  int32_t out_features = 0;
  int32_t strips = 0;
  LeafMap leaves;                           // by chunks
  int32_t leaf_strip[kLeavesMax + 1] = {};  // first strip of each leaf; [leaves]: all
  DType scale_type = DType::kF32;
  CodeKind kind = CodeKind::kInt4;
  uint8_t gap[2] = {};
};

TUTTI_HOST_DEVICE int32_t UnitsOf(int64_t out_features) {
  return static_cast<int32_t>((out_features + kUnitOut - 1) / kUnitOut);
}

}  // namespace tutti::kernels::cuda
