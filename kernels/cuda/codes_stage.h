// Common to the products with codes: one chunk of a unit in shared memory, and what becomes of it.
#pragma once

#include "kernels/cuda/codes_expand.h"
#include "kernels/cuda/product_tile.h"

namespace tutti::kernels::cuda {

// Of one chunk beside the codes of a unit: zero points of its strip, or inner scales, of which
// there are two for each output.
template <CodeKind kKind>
inline constexpr int kBesideCopies = kKind == CodeKind::kNvfp4 ? 4
                                     : IsInteger(kKind)        ? 2
                                                               : 0;

// One unit's part of a stage: its codes, and what is beside them.
template <CodeKind kKind>
struct UnitStage {
  static constexpr int kCodeBytes = UnitChunkBytes(kKind);
  static constexpr int kBytes = kCodeBytes + kBesideCopies<kKind> * 16;
};

// From where a chunk's bytes beside the codes come; nullptr: there are none.
template <CodeKind kKind>
TUTTI_DEVICE const uint8_t* BesideOf(const CodesArgs& args, int64_t unit, int32_t chunk,
                                     int32_t strip) {
  if constexpr (kKind == CodeKind::kNvfp4) {
    return args.inner + (unit * Chunks(args.leaves) + chunk) * 2 * kUnitOut;
  }
  if constexpr (IsInteger(kKind)) {
    if (args.zeros != nullptr) return args.zeros + (unit * args.strips + strip) * kUnitOut;
  }
  return nullptr;
}

// What a lane's codes are changed by, of its outputs g + 8 r (CodeOffset).
//   beside  what a chunk has beside its codes; nullptr: zero points are in the middle
template <CodeKind kKind>
TUTTI_DEVICE void LoadOffsets(const char* beside, uint32_t (&offset)[kRowsOfLane]) {
  const int lane = Lane(), inner = kKind == CodeKind::kNvfp4 ? lane % 4 / 2 * kUnitOut : 0;
  const uint32_t word =
      beside == nullptr
          ? MiddleZeroOf(kKind) * 0x01010101u
          : *reinterpret_cast<const uint32_t*>(beside + inner + lane / 4 * kRowsOfLane);
  TUTTI_UNROLL
  for (int r = 0; r < kRowsOfLane; ++r) {
    offset[r] = CodeOffset<kKind>(static_cast<uint8_t>(word >> 8 * r));
  }
}
// Whether a lane's offsets are to be loaded for a chunk, the first of its strip or not.
template <CodeKind kKind>
TUTTI_DEVICE bool HasOffsets(const CodesArgs& args, bool first_of_strip) {
  if constexpr (HasInnerScales(kKind)) return true;
  return IsInteger(kKind) && first_of_strip && args.zeros != nullptr;
}

// A lane's share of a unit's chunk, from its codes: of the outputs g + 8 r.
template <CodeKind kKind>
TUTTI_DEVICE void ExpandUnit(const char* stage, const uint32_t (&offset)[kRowsOfLane],
                             Words (&weights)[kRowsOfLane]) {
  constexpr int kWords = WordsOfOutput(kKind);
  uint32_t codes[kRowsOfLane * kWords];
  TUTTI_UNROLL
  for (int i = 0; i < kWords; ++i) {
    const Words some = *reinterpret_cast<const Words*>(stage + i * 512 + Lane() * 16);
    TUTTI_UNROLL
    for (int word = 0; word < 4; ++word) codes[i * 4 + word] = some.w[word];
  }
  TUTTI_UNROLL
  for (int r = 0; r < kRowsOfLane; ++r) {
    weights[r] = ExpandCodes<kKind>(codes + r * kWords, offset[r]);
  }
}

// The scales of a strip of a lane's outputs.
TUTTI_DEVICE void LoadScales(const CodesArgs& args, int64_t unit, int32_t strip,
                             float (&scale)[kRowsOfLane]) {
  const int64_t first = (unit * args.strips + strip) * kUnitOut + Lane() / 4 * kRowsOfLane;
  TUTTI_UNROLL
  for (int r = 0; r < kRowsOfLane; ++r)
    scale[r] = LoadValue(args.scales, args.scale_type, first + r);
}

// Of one row's sums and outputs of a lane: part q of tile i belongs to its output g + 8 r.
TUTTI_DEVICE constexpr int OutputOfPart(int tile, int q) { return 2 * tile + q / 2; }

}  // namespace tutti::kernels::cuda
