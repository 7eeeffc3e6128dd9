#include "kernels/cuda/joined.h"
#include "kernels/cuda/packed_rows.h"

namespace tutti::kernels::cuda {
namespace {

// Four numbers of a row's gate and of what it is multiplied with.
struct GatedFours {
  Fours gate, up;
};
// Of the leaf's last the first `left`.
//   kFours: by 16 bytes; then `left` is a multiple of four
template <bool kFours>
TUTTI_DEVICE GatedFours LoadGated(const float* gate, int32_t up, int32_t left) {
  GatedFours x = {};
  if constexpr (kFours) {
    if (left <= 0) return x;
    x.gate = *reinterpret_cast<const Fours*>(gate);
    x.up = *reinterpret_cast<const Fours*>(gate + up);
  } else {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i >= left) continue;
      x.gate.v[i] = gate[i];
      x.up.v[i] = gate[up + i];
    }
  }
  return x;
}
// Of padding, which is loaded as 0, 0.
TUTTI_DEVICE Fours Activate(const GatedFours& x) {
  Fours out;
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = SiluTimes(x.gate.v[i], x.up.v[i]);
  return out;
}

// A thread per four numbers.
template <bool kFours>
TUTTI_KERNEL_OF(kFewRowThreads)
void SiluPackBf16(TUTTI_PARAMETER SiluPackArgs args) {
  LetNextBegin();
  const LeafMap& leaves = args.packed.leaves;
  const int32_t chunks = Chunks(leaves);
  const auto packed = static_cast<int32_t>(4 * (BlockY() * ThreadCount() + ThreadIndex()));
  const ChunkPlace place = PlaceOf(leaves, packed / kChunkK);
  const int32_t in_chunk = packed % kChunkK;
  const float* const gate = args.gate_up + BlockX() * args.stride + place.k + in_chunk;
  WaitForEarlier();
  if (packed >= chunks * kChunkK) return;
  const auto x = LoadGated<kFours>(gate, leaves.begin[leaves.leaves], place.left - in_chunk);
  StoreFours(args.packed, BlockX(), packed, chunks, Activate(x));
}

// A warp per piece of eight rows, in two halves: each load is 128 bytes of four rows, each store 64
// bytes in a row.
template <bool kFours>
TUTTI_KERNEL_OF(kRowThreads)
void SiluPackPieces(TUTTI_PARAMETER SiluPackArgs args) {
  LetNextBegin();
  const LeafMap& leaves = args.packed.leaves;
  const int32_t chunks = Chunks(leaves), up = leaves.begin[leaves.leaves];
  const auto chunk = static_cast<int32_t>(BlockY() * (kRowThreads / kWarp) + WarpIndex());
  const ChunkPlace place = PlaceOf(leaves, chunk);
  const int64_t row = BlockX() * kPieceRows + Lane() / 8;
  const int32_t in_chunk = Lane() % 8 * 4, left = place.left - in_chunk;
  const float* const gate = args.gate_up + row * args.stride + place.k + in_chunk;
  WaitForEarlier();
  if (chunk >= chunks) return;
  const auto first = LoadGated<kFours>(gate, up, row < args.rows ? left : 0);
  const auto second = LoadGated<kFours>(gate + 4 * args.stride, up, row + 4 < args.rows ? left : 0);
  StoreFours(args.packed, row, chunk * kChunkK + in_chunk, chunks, Activate(first));
  StoreFours(args.packed, row + 4, chunk * kChunkK + in_chunk, chunks, Activate(second));
}

// A block per row and leaf.
TUTTI_KERNEL void SiluPackF16(TUTTI_PARAMETER SiluPackArgs args) {
  LetNextBegin();
  WaitForEarlier();
  const LeafMap& leaves = args.packed.leaves;
  const float* const gate = args.gate_up + BlockX() * args.stride;
  const float* const up = gate + leaves.begin[leaves.leaves];
  PackF16Leaf<kRowThreads>(args.packed, BlockX(), static_cast<int32_t>(BlockY()),
                           [&](int64_t k) { return SiluTimes(gate[k], up[k]); });
}

template <bool kFours>
void LaunchSiluPackBf16(const SiluPackArgs& args, Launcher* launcher) {
  const int32_t chunks = Chunks(args.packed.leaves);
  if (args.packed.wide != 0 || (args.packed.pieces > 0 && args.rows > kPieceRows)) {
    const Grid grid =
        GridOver((args.rows + kPieceRows - 1) / kPieceRows, chunks, kRowThreads / kWarp);
    return LaunchEarly(&SiluPackPieces<kFours>, grid, kRowThreads, 0, launcher, args);
  }
  LaunchEarly(&SiluPackBf16<kFours>, GridOver(args.rows, chunks * kChunkK / 4, kFewRowThreads),
              kFewRowThreads, 0, launcher, args);
}

}  // namespace

void LaunchSiluPack(const SiluPackArgs& args, Launcher* launcher) {
  if (args.packed.bf16 == 0) {
    return LaunchEarly(&SiluPackF16, {args.rows, args.packed.leaves.leaves}, kRowThreads,
                       kReduceSharedBytes, launcher, args);
  }
  if (HasFours(args.gate_up, args.stride) && HasFours(args.packed.leaves)) {
    LaunchSiluPackBf16<true>(args, launcher);
  } else {
    LaunchSiluPackBf16<false>(args, launcher);
  }
}

}  // namespace tutti::kernels::cuda
