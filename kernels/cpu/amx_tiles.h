// AMX's eight tiles of 16 rows by 64 bytes, as the kernels use them: each function is one
// instruction.
//
// Assembly, not intrinsics: GCC 12's tell the compiler of no memory that a tile is loaded from, so
// that stores before it vanish, and of 8 of the configuration's 64 bytes.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxRows = 16;      // of a tile
inline constexpr int64_t kAmxRowBytes = 64;  // 32 bf16, or 16 f32
inline constexpr int64_t kAmxTileBytes = kAmxRows * kAmxRowBytes;
inline constexpr int64_t kAmxBlockPairs = 16;  // pairs of k in a product of tiles

// How the tiles of a product are laid out.
//
//   pair    0 1 = sums of the first rows, 2 3 = of the second rows, each by two units of columns;
//           4 5 = weights; 6 7 = first rows, second rows
//   single  0 1 2 3 = sums of one tile of rows by four units; 4 = rows; 5 6 7 = weights
struct alignas(64) AmxTileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Of a pair of tiles of `first` and `second` rows, or of a single one where `second` is 0.
TUTTI_INLINE AmxTileConfig AmxTilesOf(int64_t first, int64_t second) {
  AmxTileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kAmxRowBytes;
    config.rows[tile] = kAmxRows;
  }
  const auto set = [&](int tile, int64_t rows) { config.rows[tile] = static_cast<uint8_t>(rows); };
  if (second > 0) {
    set(0, first), set(1, first), set(6, first);
    set(2, second), set(3, second), set(7, second);
  } else {
    for (int tile = 0; tile <= 4; ++tile) set(tile, first);
  }
  return config;
}
TUTTI_INLINE void AmxConfigure(const AmxTileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
// Tiles that are in use make every switch of threads save 8 KiB, and the core's clock fall.
TUTTI_INLINE void AmxRelease() { asm volatile("tilerelease" : : : "memory"); }

template <int kTile>
TUTTI_INLINE void AmxZero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
TUTTI_INLINE void AmxLoad(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
TUTTI_INLINE void AmxStore(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
// Adds the product of a tile of rows and one of weights to a tile of sums, as BlockFormat does.
template <int kSum, int kRows, int kWeights>
TUTTI_INLINE void AmxMultiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
}

}  // namespace
}  // namespace tutti::kernels::cpu
