// Products with quantised weights, as kernels (kernels/quantised_source.h; the layout is in
// codes_layout.h).
//
// One voice by construction: the sum of a strip is one chain of mma.sync over its chunks from zero,
// in every kernel; the strips of a leaf are added in order, each by one fused multiply-add; leaves
// in the tree of AddLeaf.
#pragma once

#include "kernels/cuda/codes_layout.h"

namespace tutti::kernels::cuda {

// REQUIRES: rows > 0; `out` is set or LeafSumCount is not 0
void LaunchCodesProduct(const CodesArgs& args, Launcher* launcher);
// Its parts: up to kStreamRows rows, and more. The latter leaves the sums of leaves where
// LeafSumCount is not 0.
void LaunchFewRowsOfCodes(const CodesArgs& args, Launcher* launcher);
void LaunchManyRowsOfCodes(const CodesArgs& args, Launcher* launcher);

// Products of rows in f32, in fused multiply-adds in order of k.
struct PlainCodesArgs {
  CodesArgs codes;
  const float* in = nullptr;  // [rows, k]
  int64_t in_stride = 0;
  const int32_t* order = nullptr;  // nullptr: by the leaves
};
void LaunchPlainCodes(const PlainCodesArgs& args, Launcher* launcher);

// out = the rows of `in`, in bf16, in the order of a section's inputs.
struct GatherPackedArgs {
  const float* in = nullptr;  // [rows, k]
  int64_t in_stride = 0;
  const int32_t* order = nullptr;  // [chunks * kChunkK]; -1: a zero
  uint16_t* out = nullptr;         // ActivationIndex
  int32_t rows = 0;
  int32_t chunks = 0;
};
void LaunchGatherPacked(const GatherPackedArgs& args, Launcher* launcher);

// Moves codes of a section's rows, already on the device, to their places.
struct PackCodesArgs {
  const uint8_t* in = nullptr;     // [rows, width], rows next to each other
  const int32_t* order = nullptr;  // [chunks * kChunkK]; -1: none
  uint8_t* out = nullptr;
  int64_t first_row = 0;  // of the section
  int64_t rows = 0;
  int64_t width = 0;
  int32_t chunks = 0;
  CodeKind kind = CodeKind::kInt4;
  uint8_t gap[3] = {};
};
void LaunchPackCodes(const PackCodesArgs& args, Launcher* launcher);

// Moves what belongs to outputs beside codes (scales, zero points, inner scales) to its slots:
// out[unit][i][slot] = in[row][map[i]].
struct PackBesideArgs {
  const void* in = nullptr;      // [rows, width] elements, rows next to each other
  const int32_t* map = nullptr;  // [count]; -1: none
  void* out = nullptr;
  int64_t first_row = 0;  // of the section
  int64_t rows = 0;
  int64_t width = 0;
  int32_t count = 0;
  int32_t element = 1;  // bytes: 1, 2 or 4
};
void LaunchPackBeside(const PackBesideArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
