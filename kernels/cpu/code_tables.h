// The values of codes as bf16, for the vector kernels to look up.
//
// To be included only by the kernels_*.cc files: in an unnamed namespace, like all of theirs.
#pragma once

#include <cstdint>

#include "kernels/code_kind.h"

namespace tutti::kernels::cpu {
namespace {

struct CodeTable {
  alignas(64) uint16_t bf16[32];
  uint8_t low[16];  // the bytes of the bf16 that one byte can name
  uint8_t high[16];
};

// |value| <= 255, in eighths: exact.
constexpr uint16_t Bf16OfEighths(int eighths) {
  if (eighths == 0) return 0;
  const int sign = eighths < 0 ? 0x8000 : 0;
  int magnitude = eighths < 0 ? -eighths : eighths;
  int exponent = 127 - 3;
  int top = 0;
  while ((magnitude >> top) > 1) ++top;
  exponent += top;
  const int fraction = (top <= 7 ? magnitude << (7 - top) : magnitude >> (top - 7)) & 0x7f;
  return static_cast<uint16_t>(sign | exponent << 7 | fraction);
}

// Of an entry: a code of 4 bits less 8; the same less any zero point, of which an entry is the
// lowest five bits; e2m1; the fraction of an e4m3 whose exponent is 0, in units of 2^-9.
constexpr CodeTable MakeCodeTable(CodeKind kind, bool zeros) {
  constexpr int kE2m1Halves[] = {0, 1, 2, 3, 4, 6, 8, 12};
  CodeTable table = {};
  for (int i = 0; i < 32; ++i) {
    uint16_t value = 0;
    if (kind == CodeKind::kInt4) {
      value = Bf16OfEighths(8 * (zeros ? (i < 16 ? i : i - 32) : i % 16 - 8));
    } else if (kind == CodeKind::kE2m1 || kind == CodeKind::kNvfp4) {
      value = Bf16OfEighths(4 * kE2m1Halves[i % 8]);
      if (i % 16 >= 8) value = static_cast<uint16_t>(value | 0x8000);
    } else if (kind == CodeKind::kE4m3 && i % 8 > 0) {
      value = static_cast<uint16_t>(Bf16OfEighths(8 * (i % 8)) - (9 << 7));
    }
    table.bf16[i] = value;
    if (i >= 16) continue;
    table.low[i] = static_cast<uint8_t>(value & 0xff);
    table.high[i] = static_cast<uint8_t>(value >> 8);
  }
  return table;
}

template <CodeKind kKind, bool kZeros>
constexpr CodeTable kCodeTable = MakeCodeTable(kKind, kZeros);

template <CodeKind kKind, bool kZeros>
constexpr const CodeTable& TableOf() {
  return kCodeTable<kKind, kZeros>;
}

}  // namespace
}  // namespace tutti::kernels::cpu
