#include "kernels/cuda/gpu_hopper.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/cuda/wgmma_probe.h"

namespace tutti::kernels::cuda {
namespace {

// Chains are of one to so many chunks of two instructions.
constexpr int kChunksMax = 3;

TUTTI_DEVICE uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// Which numbers a block multiplies.
enum Kind {
  kUsual,       // within a factor of 16
  kAnything,    // of all exponents
  kCancelling,  // few values of both signs, whose sums are mostly zero
  kDenormal,
  kNotFinite,    // infinities and NaN among the usual
  kFarApart,     // by 12 or 13 binary places and twice that, where tensor cores cut
  kZeros,        // of both signs, among the usual
  kNearOverflow  // of an f32, for bf16
};
static_assert(kNearOverflow + 1 == kWgmmaProbeKinds);

// A number of a kind from random bits, by the fields of its format.
//   exponents: how many there are;  fraction_bits;  large: the exponent near overflow
struct Format {
  uint32_t exponents, fraction_bits, large;
};
TUTTI_DEVICE uint32_t NumberOf(Kind kind, const Format& format, uint32_t random) {
  const uint32_t sign = random & 1, one = format.exponents / 2 - 1;
  const uint32_t choice = random >> 1 & 0xff;
  const uint32_t fraction_mask = (1u << format.fraction_bits) - 1;
  uint32_t fraction = Mix(random ^ 0x9e3779b9u) & fraction_mask;
  uint32_t exponent = one - choice % 4;
  switch (kind) {
    case kUsual:
      break;
    case kAnything:
      exponent = choice % (format.exponents - 1);
      break;
    case kCancelling:
      exponent = one - choice % 2;
      fraction = choice / 2 % 4 == 0 ? fraction : choice / 8 % 2;
      break;
    case kDenormal:
      exponent = choice % 4 == 0 ? choice / 4 % (format.exponents - 1) : 0;
      break;
    case kNotFinite:
      if (choice < 4) {
        exponent = format.exponents - 1;
        fraction = choice == 0 ? fraction | 1 : 0;
      }
      break;
    case kFarApart: {
      const uint32_t places = choice % 5;
      exponent = places == 0 ? one : places < 3 ? one - 11 - places : one + 9 + places;
      break;
    }
    case kZeros:
      if (choice % 2 == 0) exponent = fraction = 0;
      break;
    case kNearOverflow:
      exponent = format.large - choice % 3;
      break;
  }
  return (sign * format.exponents + exponent) << format.fraction_bits | fraction;
}

template <bool kBf16>
TUTTI_DEVICE uint32_t Pair(Kind kind, uint32_t random) {
  const Format format = kBf16 ? Format{256, 7, 191} : Format{32, 10, 30};
  return NumberOf(kind, format, random) | NumberOf(kind, format, Mix(random + 1)) << 16;
}
TUTTI_DEVICE float Begin(Kind kind, uint32_t random) {
  const uint32_t bits = NumberOf(kind, {256, 23, 254}, random);
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

TUTTI_DEVICE bool SameBits(float a, float b) {
  if (a != a && b != b) return true;
  uint32_t x, y;
  memcpy(&x, &a, sizeof(x));
  memcpy(&y, &b, sizeof(y));
  return x == y;
}

// Random words of one block: the factors of a thread, its first sums, and its share of shared
// memory.
struct Source {
  uint32_t seed;
  TUTTI_DEVICE uint32_t Of(uint32_t purpose, uint32_t index) const {
    return Mix(seed ^ Mix(purpose * 0x10001u + index) ^ static_cast<uint32_t>(ThreadIndex()) << 20);
  }
};

// The four left words of instruction `step` of this thread's chain.
template <bool kBf16>
TUTTI_DEVICE void LeftOf(Kind kind, const Source& source, int step, uint32_t (&a)[4]) {
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    a[i] = Pair<kBf16>(kind, source.Of(1, static_cast<uint32_t>(step * 4 + i)));
  }
}
// The number to which chain `i` of this thread is added.
template <bool kFromZero>
TUTTI_DEVICE float BeginOf(Kind kind, const Source& source, int i) {
  return kFromZero ? 0.0f : Begin(kind, source.Of(2, static_cast<uint32_t>(i)));
}

// How many of this thread's sums mma.sync computes with other bits.
//   right: the chunks, each of kSums / 4 tiles of 8 columns;  sums [kSums][threads]
template <bool kBf16, int kSums, bool kFromZero>
TUTTI_DEVICE int CountDifferent(Kind kind, const Source& source, int chunks, const uint32_t* right,
                                const float* sums) {
  constexpr int kTiles = kSums / 4;
  int different = 0;
  TUTTI_KEEP_LOOP
  for (int tile = 0; tile < kTiles; ++tile) {
    float expected[4];
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) expected[i] = BeginOf<kFromZero>(kind, source, 4 * tile + i);
    TUTTI_KEEP_LOOP
    for (int step = 0; step < 2 * chunks; ++step) {
      uint32_t a[4];
      LeftOf<kBf16>(kind, source, step, a);
      const uint32_t* const b = right + step / 2 * (kTiles * kPieceBytes / 4) +
                                tile * (kPieceBytes / 4) + step % 2 * (2 * kWarp) + Lane();
      Mma<kBf16>(expected, a, {b[0], b[kWarp]});
    }
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (!SameBits(expected[i], sums[(4 * tile + i) * kWarpgroup])) ++different;
    }
  }
  return different;
}

// A warpgroup multiplies [64, 32 chunks] by [32 chunks, 2 kSums] twice. kFromZero: not added to
// anything, as the compiler then may leave the sum out of the first instruction.
template <bool kBf16, int kSums, bool kFromZero>
TUTTI_LARGE_KERNEL(kWarpgroup)
CompareInstructions(TUTTI_PARAMETER WgmmaProbeArgs args) {
  constexpr int kChunkBytes = kSums / 4 * kPieceBytes;  // tiles of 8 columns
  const auto kind = static_cast<Kind>(BlockX() % kWgmmaProbeKinds);
  const int chunks = 1 + static_cast<int>(BlockX() / kWgmmaProbeKinds % kChunksMax);
  const Source source = {
      Mix(static_cast<uint32_t>(BlockX()) * 1024 + kBf16 * 512 + kFromZero * 256 + kSums)};

  auto* const right = reinterpret_cast<uint32_t*>(SharedMemory());
  // [kSums][threads]: this thread's sums, where they can be walked in a loop.
  float* const sums =
      reinterpret_cast<float*>(SharedMemory() + kChunksMax * kChunkBytes) + ThreadIndex();
  TUTTI_KEEP_LOOP
  for (int i = ThreadIndex(); i < chunks * kChunkBytes / 4; i += kWarpgroup) {
    right[i] = Pair<kBf16>(kind, source.Of(3, static_cast<uint32_t>(i)));
  }
  TUTTI_KEEP_LOOP
  for (int i = 0; i < kSums && !kFromZero; ++i) {
    sums[i * kWarpgroup] = BeginOf<kFromZero>(kind, source, i);
  }
  FenceAsyncProxy();
  SyncBlock();

  float sum[kSums];
  const auto multiply = [&](int step) {
    uint32_t a[4];
    LeftOf<kBf16>(kind, source, step, a);
    const uint32_t at =
        SharedAddress(SharedMemory()) + step / 2 * kChunkBytes + step % 2 * 2 * kCoreMatrixBytes;
    WgmmaFence();
    Wgmma<kBf16>(sum, a, MatrixDescriptor(at, kCoreMatrixBytes, kPieceBytes));
    WgmmaCommit();
    WgmmaWait<0>();
  };
  TUTTI_UNROLL
  for (int i = 0; i < kSums; ++i) sum[i] = kFromZero ? 0.0f : sums[i * kWarpgroup];
  multiply(0);
  TUTTI_KEEP_LOOP
  for (int step = 1; step < 2 * chunks; ++step) multiply(step);
  AcceptSums(sum);

  TUTTI_UNROLL
  for (int i = 0; i < kSums; ++i) sums[i * kWarpgroup] = sum[i];

  const int different = CountDifferent<kBf16, kSums, kFromZero>(kind, source, chunks, right, sums);
  FetchAdd(args.compared, kSums);
  if (different > 0) FetchAdd(args.different, different);
}

// How many of this thread's sums mma.sync computes with other bits when left and right change
// places. As CountDifferent, of sums of the whole warp.
template <bool kBf16, int kSums>
TUTTI_DEVICE int CountDifferentSides(Kind kind, const Source& source, int chunks,
                                     const uint32_t* right, const float* sums) {
  constexpr int kTiles = kSums / 4;
  const int g = Lane() / 4, t = Lane() % 4;
  int different = 0;
  TUTTI_KEEP_LOOP
  for (int i = 0; i < kTiles; ++i) {
    const int tile = i / 2 * 2, rows = i % 2;  // two tiles of columns by 8 rows
    float expected[4] = {};
    TUTTI_KEEP_LOOP
    for (int step = 0; step < 2 * chunks; ++step) {
      uint32_t a[4];
      LeftOf<kBf16>(kind, source, step, a);
      const uint32_t* const b = right + step / 2 * (kTiles * kPieceBytes / 4) +
                                tile * (kPieceBytes / 4) + step % 2 * (2 * kWarp) + Lane();
      const uint32_t* const next = b + kPieceBytes / 4;
      Mma<kBf16>(expected, {b[0], next[0], b[kWarp], next[kWarp]},
                 {rows == 0 ? a[0] : a[1], rows == 0 ? a[2] : a[3]});
    }
    TUTTI_UNROLL
    for (int j = 0; j < 4; ++j) {
      // Row 8 rows + 2 t + j % 2, column 8 (tile + j / 2) + g.
      const int lane = (2 * t + j % 2) * 4 + g / 2;
      const int number = 4 * (tile + j / 2) + 2 * rows + g % 2;
      if (!SameBits(expected[j], sums[number * kWarpgroup + lane])) ++different;
    }
  }
  return different;
}

// As CompareInstructions, for chains from nothing of attention_hopper.cu.
template <bool kBf16>
TUTTI_LARGE_KERNEL(kWarpgroup)
CompareSides(TUTTI_PARAMETER WgmmaProbeArgs args) {
  constexpr int kSums = 32;
  constexpr int kChunkBytes = kSums / 4 * kPieceBytes;
  const auto kind = static_cast<Kind>(BlockX() % kWgmmaProbeKinds);
  const int chunks = 1 + static_cast<int>(BlockX() / kWgmmaProbeKinds % kChunksMax);
  const Source source = {Mix(static_cast<uint32_t>(BlockX()) * 2 + kBf16 + 0x51de5u)};
  auto* const right = reinterpret_cast<uint32_t*>(SharedMemory());
  auto* const sums = reinterpret_cast<float*>(SharedMemory() + kChunksMax * kChunkBytes);
  TUTTI_KEEP_LOOP
  for (int i = ThreadIndex(); i < chunks * kChunkBytes / 4; i += kWarpgroup) {
    right[i] = Pair<kBf16>(kind, source.Of(3, static_cast<uint32_t>(i)));
  }
  FenceAsyncProxy();
  SyncBlock();

  float sum[kSums];
  const auto multiply = [&](int step, auto add) {
    uint32_t a[4];
    LeftOf<kBf16>(kind, source, step, a);
    const uint32_t at =
        SharedAddress(SharedMemory()) + step / 2 * kChunkBytes + step % 2 * 2 * kCoreMatrixBytes;
    WgmmaFence();
    add(a, MatrixDescriptor(at, kCoreMatrixBytes, kPieceBytes));
    WgmmaCommit();
    WgmmaWait<0>();
  };
  multiply(0, [&](const uint32_t(&a)[4], uint64_t b) { WgmmaFromNothing<kBf16>(sum, a, b); });
  TUTTI_KEEP_LOOP
  for (int step = 1; step < 2 * chunks; ++step) {
    multiply(step, [&](const uint32_t(&a)[4], uint64_t b) { Wgmma<kBf16>(sum, a, b); });
  }
  AcceptSums(sum);
  TUTTI_UNROLL
  for (int i = 0; i < kSums; ++i) sums[i * kWarpgroup + ThreadIndex()] = sum[i];
  SyncWarp();
  const int different =
      CountDifferentSides<kBf16, kSums>(kind, source, chunks, right, sums + WarpIndex() * kWarp);
  FetchAdd(args.compared, kSums);
  if (different > 0) FetchAdd(args.different, different);
}

template <bool kBf16>
int64_t LaunchSides(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  constexpr int kSums = 32;
  Launch(&CompareSides<kBf16>, {blocks}, kWarpgroup,
         kChunksMax * (kSums / 4) * kPieceBytes + kSums * kWarpgroup * 4, launcher, args);
  return int64_t{1} * blocks * kWarpgroup * kSums;
}

template <bool kBf16, int kSums, bool kFromZero>
int64_t LaunchOf(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  Launch(&CompareInstructions<kBf16, kSums, kFromZero>, {blocks}, kWarpgroup,
         kChunksMax * (kSums / 4) * kPieceBytes + kSums * kWarpgroup * 4, launcher, args);
  return int64_t{1} * blocks * kWarpgroup * kSums;
}

template <bool kBf16, int... kSums>
int64_t LaunchType(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  return ((LaunchOf<kBf16, kSums, false>(args, blocks, launcher) +
           LaunchOf<kBf16, kSums, true>(args, blocks, launcher)) +
          ...);
}
template <bool kBf16>
int64_t LaunchWidths(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  return LaunchType<kBf16, 128, 64, 32, 16, 8, 4>(args, blocks, launcher);
}

}  // namespace

int64_t LaunchWgmmaProbe(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  return LaunchWidths<true>(args, blocks, launcher) + LaunchWidths<false>(args, blocks, launcher);
}

int64_t LaunchWgmmaSidesProbe(const WgmmaProbeArgs& args, int blocks, Launcher* launcher) {
  return LaunchSides<true>(args, blocks, launcher) + LaunchSides<false>(args, blocks, launcher);
}

}  // namespace tutti::kernels::cuda
