// Codes become bf16, exactly: a lane's eight inputs of one output as the words that tensor-core
// products take.
#pragma once

#include "kernels/cuda/codes_layout.h"
#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/ordered_bits.h"

namespace tutti::kernels::cuda {

inline constexpr uint32_t kBf16Ones = 0x3f803f80u;
// A product with it added is rounded as the product alone: minus zero.
inline constexpr uint32_t kBf16NoSum = 0x80008000u;
inline constexpr uint32_t kF32WithByte = 0x4b000000u;  // 2^23: a byte in its lowest bits is added

// What a lane's codes of one output are changed by.
//   kInt4    -(128 + zero point), twice: a nibble in the fraction of 128 is 128 + code
//   kInt8    -(2^23 + zero point), of an f32
//   kNvfp4   the inner scale, twice
//   others   unused
template <CodeKind kKind>
TUTTI_DEVICE uint32_t CodeOffset(uint8_t beside) {
  if constexpr (kKind == CodeKind::kInt4) return (0xc300u | beside) * 0x10001u;
  if constexpr (kKind == CodeKind::kInt8) return 0xcb000000u | beside;
  if constexpr (kKind == CodeKind::kNvfp4) {
    // Four bits of exponent as those of bf16, whose bias is larger by 120.
    constexpr uint32_t kScale = (127 + 120) << 7;
    const uint32_t pair = static_cast<uint32_t>(beside) << 4 | static_cast<uint32_t>(beside) << 20;
    return MultiplyAddPairs(pair, kScale | kScale << 16, kBf16NoSum);
  }
  return 0;
}

// Two codes of four bits, in the lowest of each half.
template <CodeKind kKind>
TUTTI_DEVICE uint32_t ExpandNibbles(uint32_t word, int nibble, uint32_t offset) {
  if constexpr (kKind == CodeKind::kInt4) {
    const uint32_t codes = (word >> 4 * nibble & 0x000f000fu) | 0x43004300u;
    return MultiplyAddPairs(codes, kBf16Ones, offset);
  } else {
    // Sign, and exponent and fraction where bf16 has theirs, whose bias is larger by 126.
    constexpr uint32_t kScale = (127 + 126) << 7;
    const uint32_t top = word << (12 - 4 * nibble);
    const uint32_t codes = (top & 0x80008000u) | (top >> 6 & 0x01c001c0u);
    const uint32_t values = MultiplyAddPairs(codes, kScale | kScale << 16, kBf16NoSum);
    if constexpr (kKind == CodeKind::kE2m1) return values;
    return MultiplyAddPairs(values, offset, kBf16NoSum);
  }
}

// The codes of bytes 1 and 3 of a word, or of bytes 0 and 2.
template <CodeKind kKind>
TUTTI_DEVICE uint32_t ExpandBytes(uint32_t word, bool upper, uint32_t offset) {
  if constexpr (kKind == CodeKind::kInt8) {
    const float first = FloatOf(PermuteWords(word, kF32WithByte, upper ? 0x7651 : 0x7650));
    const float second = FloatOf(PermuteWords(word, kF32WithByte, upper ? 0x7653 : 0x7652));
    // Whole numbers of eight bits and a sign: the lower halves are zeros.
    return PermuteWords(BitsOf(first + FloatOf(offset)), BitsOf(second + FloatOf(offset)), 0x7632);
  } else {
    constexpr uint32_t kScale = (127 + 120) << 7;
    const uint32_t top = upper ? word : word << 8;
    const uint32_t codes = (top & 0x80008000u) | (top >> 4 & 0x07f007f0u);
    return MultiplyAddPairs(codes, kScale | kScale << 16, kBf16NoSum);
  }
}

//   words  [WordsOfOutput]
template <CodeKind kKind>
TUTTI_DEVICE Words ExpandCodes(const uint32_t* words, uint32_t offset) {
  Words values;
  TUTTI_UNROLL
  for (int pair = 0; pair < 4; ++pair) {
    if constexpr (CodeBits(kKind) == 4) {
      values.w[pair] = ExpandNibbles<kKind>(words[0], pair, offset);
    } else {
      values.w[pair] = ExpandBytes<kKind>(words[pair / 2], pair % 2 == 0, offset);
    }
  }
  return values;
}

TUTTI_DEVICE uint8_t MiddleZeroOf(CodeKind kind) {
  return kind == CodeKind::kInt4 ? 8 : kind == CodeKind::kInt8 ? 128 : 0;
}

TUTTI_DEVICE float ScaleOf(const CodesArgs& args, int64_t out, int32_t strip) {
  const int64_t at = (out / kUnitOut * args.strips + strip) * kUnitOut + UnitSlot(out);
  return LoadValue(args.scales, args.scale_type, at);
}

// One code as f32.
TUTTI_DEVICE float CodeAsF32(CodeKind kind, uint8_t code, uint8_t zero, uint8_t inner) {
  const auto first = [](uint32_t pair) { return FromBf16(static_cast<uint16_t>(pair)); };
  switch (kind) {
    case CodeKind::kInt4:
    case CodeKind::kInt8:
      return static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    case CodeKind::kE2m1:
      return first(ExpandNibbles<CodeKind::kE2m1>(code, 0, 0));
    case CodeKind::kE4m3:
      return first(ExpandBytes<CodeKind::kE4m3>(code, false, 0));
    case CodeKind::kNvfp4:
      return first(ExpandNibbles<CodeKind::kNvfp4>(code, 0, CodeOffset<CodeKind::kNvfp4>(inner)));
  }
  return 0;
}

}  // namespace tutti::kernels::cuda
