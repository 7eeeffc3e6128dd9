// f32, bf16 and f16 inside kernels: the same bits as kernels/float_formats.h, whose functions are
// for the host.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cuda/gpu.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "kernels/float_formats.h"
#endif

namespace tutti::kernels::cuda {

#ifdef __CUDACC__
TUTTI_DEVICE float FromBf16(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
TUTTI_DEVICE uint16_t ToBf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
// The hardware rounds to nearest even and keeps denormals, as the host's functions do. A NaN would
// become the canonical one; the host keeps its payload.
TUTTI_DEVICE float FromF16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) {
    return __uint_as_float(static_cast<uint32_t>(bits & 0x8000u) << 16 | 0x7fc00000u |
                           (magnitude & 0x3ffu) << 13);
  }
  return __half2float(__ushort_as_half(bits));
}
TUTTI_DEVICE uint16_t ToF16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x3ffu));
  }
  return __half_as_ushort(__float2half_rn(value));
}
#else
inline float FromBf16(uint16_t bits) { return Bf16ToF32(bits); }
inline uint16_t ToBf16(float value) { return F32ToBf16(value); }
inline float FromF16(uint16_t bits) { return F16ToF32(bits); }
inline uint16_t ToF16(float value) { return F32ToF16(value); }
#endif

// The least power of two, 1 or more, by which `largest` has to be divided to round to a finite f16.
//   largest: a finite magnitude
TUTTI_DEVICE float F16Scale(float largest) {
  constexpr float kInfinite = 65520;  // half way from 65,504 to the next one beyond
  if (largest < kInfinite) return 1;
  int exponent = 0;
  const float mantissa = frexpf(largest, &exponent);  // in [0.5, 1)
  const float scale = ldexpf(1, exponent - 16);       // brings it into [32768, 65536)
  return mantissa * 65536 < kInfinite ? scale : 2 * scale;
}

template <bool kBf16>
TUTTI_DEVICE uint16_t To16(float value) {
  return kBf16 ? ToBf16(value) : ToF16(value);
}
template <bool kBf16>
TUTTI_DEVICE float From16(uint16_t bits) {
  return kBf16 ? FromBf16(bits) : FromF16(bits);
}
// Words that a lane loads at once from shared memory.
struct alignas(16) Words {
  uint32_t w[4];
};
struct alignas(8) TwoWords {
  uint32_t w[2];
};

// Two values as one word, the first in the lower half.
TUTTI_DEVICE uint32_t Pair(uint16_t first, uint16_t second) {
  return first | static_cast<uint32_t>(second) << 16;
}

// Two values rounded, as one word; a NaN becomes one of any payload.
template <bool kBf16>
TUTTI_DEVICE uint32_t RoundedPair(float first, float second) {
#ifdef __CUDACC__
  uint32_t word;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
#else
  return Pair(To16<kBf16>(first), To16<kBf16>(second));
#endif
}
// Two values as bf16, as ToBf16 rounds them.
TUTTI_DEVICE uint32_t Bf16Pair(float first, float second) {
  if (first == first && second == second) return RoundedPair<true>(first, second);
  return Pair(ToBf16(first), ToBf16(second));
}
// Four values that a lane loads or stores at once.
struct alignas(16) Fours {
  float v[4];
};

TUTTI_DEVICE float LoadValue(const void* data, DType type, int64_t index) {
  if (type == DType::kF32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return type == DType::kBF16 ? FromBf16(bits) : FromF16(bits);
}
TUTTI_DEVICE void StoreValue(void* data, DType type, int64_t index, float value) {
  if (type == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = type == DType::kBF16 ? ToBf16(value) : ToF16(value);
  }
}
// As the host's: NaN where the type would hold an infinity.
TUTTI_DEVICE float NumberOrNan(DType type, float value) {
  const float infinite = type == DType::kF16    ? 0x1.ffep15f
                         : type == DType::kBF16 ? 0x1.ffp127f
                                                : __builtin_inff();
  return fabsf(value) < infinite ? value : __builtin_nanf("");
}
TUTTI_DEVICE float RoundValue(DType type, float value) {
  if (type == DType::kF32) return value;
  return type == DType::kBF16 ? FromBf16(ToBf16(value)) : FromF16(ToF16(value));
}
TUTTI_DEVICE void RoundValues(DType type, Fours* x) {
  if (type == DType::kBF16) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; i += 2) {
      const uint32_t pair = Bf16Pair(x->v[i], x->v[i + 1]);
      x->v[i] = FromBf16(static_cast<uint16_t>(pair));
      x->v[i + 1] = FromBf16(static_cast<uint16_t>(pair >> 16));
    }
  } else {
    TUTTI_UNROLL
    for (float& value : x->v) value = RoundValue(type, value);
  }
}

}  // namespace tutti::kernels::cuda
