#include "kernels/cuda/codes.h"
#include "kernels/cuda/codes_expand.h"

namespace tutti::kernels::cuda {
namespace {

TUTTI_KERNEL void GatherPacked(TUTTI_PARAMETER GatherPackedArgs args) {
  const int64_t row = BlockX();
  const auto packed = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  LetNextBegin();
  WaitForEarlier();
  if (packed >= args.chunks * kChunkK) return;
  const int32_t k = args.order[packed];
  const float value = k < 0 ? 0 : args.in[row * args.in_stride + k];
  args.out[ActivationIndex(row, packed, args.chunks)] = ToBf16(value);
}

// A thread for each eight inputs of an output.
TUTTI_KERNEL void PackCodes(TUTTI_PARAMETER PackCodesArgs args) {
  constexpr int kInputs = 8;
  const int64_t row = BlockX();
  const auto eight = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  if (eight >= args.chunks * kChunkK / kInputs) return;
  const int32_t chunk = eight / 4, t = eight % 4;
  uint32_t words[2] = {};
  for (int i = 0; i < kInputs; ++i) {
    const int32_t k = args.order[eight * kInputs + i];
    const uint32_t code = k < 0 ? 0 : args.in[row * args.width + k];
    words[CodeBits(args.kind) == 4 ? 0 : i / 4] |= code << CodeShift(args.kind, i);
  }
  uint8_t* const to = args.out + CodeWordAt(args.kind, args.first_row + row, chunk, t, args.chunks);
  reinterpret_cast<uint32_t*>(to)[0] = words[0];
  if (CodeBits(args.kind) == 8) reinterpret_cast<uint32_t*>(to)[1] = words[1];
}

TUTTI_KERNEL void PackBeside(TUTTI_PARAMETER PackBesideArgs args) {
  const int64_t row = BlockX(), out = args.first_row + row;
  const auto i = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  if (i >= args.count || args.map[i] < 0) return;
  const int64_t from = row * args.width + args.map[i];
  const int64_t to = (out / kUnitOut * args.count + i) * kUnitOut + UnitSlot(out);
  if (args.element == 1) {
    static_cast<uint8_t*>(args.out)[to] = static_cast<const uint8_t*>(args.in)[from];
  } else if (args.element == 2) {
    static_cast<uint16_t*>(args.out)[to] = static_cast<const uint16_t*>(args.in)[from];
  } else {
    static_cast<uint32_t*>(args.out)[to] = static_cast<const uint32_t*>(args.in)[from];
  }
}

// A thread computes one feature of up to this many rows.
constexpr int kPlainRows = 8;

TUTTI_DEVICE float PlainCode(const CodesArgs& args, int64_t out, int32_t strip, int32_t packed) {
  const int32_t chunks = Chunks(args.leaves), chunk = packed / kChunkK, in_chunk = packed % kChunkK;
  const int32_t i = in_chunk % 8;
  const uint8_t* const at = args.codes + CodeWordAt(args.kind, out, chunk, in_chunk / 8, chunks);
  const bool four = CodeBits(args.kind) == 4;
  const uint32_t word = reinterpret_cast<const uint32_t*>(at)[four ? 0 : i / 4];
  const auto code = static_cast<uint8_t>(word >> CodeShift(args.kind, i) & (four ? 0xfu : 0xffu));
  const int64_t unit = out / kUnitOut;
  const int32_t slot = UnitSlot(out);
  const uint8_t zero = args.zeros == nullptr
                           ? MiddleZeroOf(args.kind)
                           : args.zeros[(unit * args.strips + strip) * kUnitOut + slot];
  const uint8_t inner =
      args.inner == nullptr
          ? 0
          : args.inner[((unit * chunks + chunk) * 2 + in_chunk / kInnerInputs) * kUnitOut + slot];
  return CodeAsF32(args.kind, code, zero, inner);
}

TUTTI_KERNEL void PlainCodes(TUTTI_PARAMETER PlainCodesArgs args) {
  const CodesArgs& codes = args.codes;
  const int64_t out = BlockX() * ThreadCount() + ThreadIndex();
  const int64_t first = BlockY() * kPlainRows;
  LetNextBegin();
  WaitForEarlier();
  if (out >= codes.out_features) return;
  float sum[kPlainRows], pending[kLeafLevels][kPlainRows] = {};
  for (int leaf = 0; leaf < codes.leaves.leaves; ++leaf) {
    TUTTI_UNROLL
    for (float& value : sum) value = 0;
    for (int32_t strip = codes.leaf_strip[leaf]; strip < codes.leaf_strip[leaf + 1]; ++strip) {
      float part[kPlainRows] = {};
      const int32_t end = codes.strip_chunk[strip + 1] * kChunkK;
      for (int32_t packed = codes.strip_chunk[strip] * kChunkK; packed < end; ++packed) {
        const int32_t k =
            args.order == nullptr ? SourceK(codes.leaves, packed) : args.order[packed];
        if (k < 0) continue;
        const float weight = PlainCode(codes, out, strip, packed);
        TUTTI_UNROLL
        for (int r = 0; r < kPlainRows; ++r) {
          if (first + r >= codes.rows) continue;
          part[r] = FusedMultiplyAdd(args.in[(first + r) * args.in_stride + k], weight, part[r]);
        }
      }
      const float scale = ScaleOf(codes, out, strip);
      TUTTI_UNROLL
      for (int r = 0; r < kPlainRows; ++r) sum[r] = FusedMultiplyAdd(part[r], scale, sum[r]);
    }
    AddLeaf<kPlainRows, kLeafLevels>(leaf, sum, pending);
  }
  TUTTI_UNROLL
  for (int r = 0; r < kPlainRows; ++r) {
    if (first + r < codes.rows) codes.out[(first + r) * codes.out_stride + out] = sum[r];
  }
}

}  // namespace

void LaunchGatherPacked(const GatherPackedArgs& args, Launcher* launcher) {
  LaunchEarly(&GatherPacked, GridOver(args.rows, args.chunks * kChunkK, kRowThreads), kRowThreads,
              0, launcher, args);
}
void LaunchPackCodes(const PackCodesArgs& args, Launcher* launcher) {
  Launch(&PackCodes, GridOver(args.rows, int64_t{1} * args.chunks * 4, kRowThreads), kRowThreads, 0,
         launcher, args);
}
void LaunchPackBeside(const PackBesideArgs& args, Launcher* launcher) {
  Launch(&PackBeside, GridOver(args.rows, args.count, kRowThreads), kRowThreads, 0, launcher, args);
}
void LaunchPlainCodes(const PlainCodesArgs& args, Launcher* launcher) {
  const Grid grid = {(args.codes.out_features + kRowThreads - 1) / kRowThreads,
                     (args.codes.rows + kPlainRows - 1) / kPlainRows};
  LaunchEarly(&PlainCodes, grid, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
