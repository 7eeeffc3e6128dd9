#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/packed_rows.h"
#include "kernels/cuda/packing.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {
namespace {

TUTTI_KERNEL void PackBf16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int32_t chunks = Chunks(args.leaves);
  const int64_t row = BlockX();
  const auto packed = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  LetNextBegin();
  WaitForEarlier();
  if (packed >= chunks * kChunkK) return;
  const int32_t k = SourceK(args.leaves, packed);
  const float value = k < 0 ? 0 : args.in[row * args.in_stride + k];
  args.out[ActivationIndex(row, packed, chunks)] = ToBf16(value);
}

// Rows for wgmma: a warp has a piece of eight rows, in two halves: each load is 128 bytes of four
// rows, each store 64 bytes in a row.
template <bool kFours>
TUTTI_KERNEL_OF(kRowThreads)
void PackWideBf16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  LetNextBegin();
  const int32_t chunks = Chunks(args.leaves);
  const auto chunk = static_cast<int32_t>(BlockY() * (kRowThreads / kWarp) + WarpIndex());
  const ChunkPlace place = PlaceOf(args.leaves, chunk);
  const int64_t row = BlockX() * kPieceRows + Lane() / 8;
  const int32_t in_chunk = Lane() % 8 * 4;
  const float* const in = args.in + row * args.in_stride + place.k + in_chunk;
  const PackedTarget to = {.rows = args.out, .wide = args.wide, .pieces = args.pieces};
  WaitForEarlier();
  if (chunk >= chunks) return;
  Fours x[2] = {};
  TUTTI_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float* const from = in + 4 * half * args.in_stride;
    const int32_t left = row + 4 * half < args.rows ? place.left - in_chunk : 0;
    if constexpr (kFours) {
      if (left > 0) x[half] = *reinterpret_cast<const Fours*>(from);
    } else {
      TUTTI_UNROLL
      for (int i = 0; i < 4; ++i) x[half].v[i] = i < left ? from[i] : 0;
    }
  }
  TUTTI_UNROLL
  for (int half = 0; half < 2; ++half) {
    StoreFours(to, row + 4 * half, chunk * kChunkK + in_chunk, chunks, x[half]);
  }
}

// A block per row and leaf: it is read once for its largest number, and once, from the cache, to
// be rounded.
TUTTI_KERNEL void PackF16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int64_t row = BlockX();
  const auto leaf = static_cast<int32_t>(BlockY());
  const int32_t chunks = Chunks(args.leaves);
  const float* const in = args.in + row * args.in_stride + args.leaves.begin[leaf];
  const int32_t length = args.leaves.begin[leaf + 1] - args.leaves.begin[leaf];
  LetNextBegin();
  WaitForEarlier();
  float largest = 0;
  for (int32_t k = ThreadIndex(); k < length; k += kRowThreads) {
    largest = LargestFinite(largest, in[k]);
  }
  largest = ReduceBlock(largest, Larger());
  const float scale = F16Scale(largest), inverse = 1 / scale;
  if (ThreadIndex() == 0) args.scale[ScaleIndex(row, leaf, args.leaves)] = scale;
  const int32_t first = args.leaves.chunk[leaf] * kChunkK;
  const int32_t padded = args.leaves.chunk[leaf + 1] * kChunkK - first;
  for (int32_t k = ThreadIndex(); k < padded; k += kRowThreads) {
    const float value = k < length ? in[k] * inverse : 0;
    const int64_t to = args.wide ? WideActivationIndex(row, first + k, chunks)
                                 : PackedRowIndex(row, first + k, chunks, args.pieces);
    args.out[to] = ToF16(value);
  }
}

TUTTI_KERNEL void PackWeight(TUTTI_PARAMETER PackWeightArgs args) {
  const int64_t width = args.leaves.begin[args.leaves.leaves];
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= args.rows * width) return;
  const int64_t out = args.first_row + i / width;
  const auto k = static_cast<int32_t>(i % width);
  if (args.type == DType::kF32) {
    static_cast<float*>(args.out)[PlainWeightIndex(out, k, args.padded_out)] =
        static_cast<const float*>(args.in)[i];
  } else {
    const int64_t to =
        WeightIndexIn(args.plain_rows, out, PackedK(args.leaves, k), Chunks(args.leaves));
    static_cast<uint16_t*>(args.out)[to] = static_cast<const uint16_t*>(args.in)[i];
  }
}

TUTTI_KERNEL void Embed(TUTTI_PARAMETER EmbedArgs args) {
  const int64_t width = args.leaves.begin[args.leaves.leaves];
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  LetNextBegin();
  WaitForEarlier();
  if (i >= args.rows * width) return;
  const int64_t row = i / width, id = args.ids[row];
  const auto k = static_cast<int32_t>(i % width);
  const int64_t from =
      args.type == DType::kF32
          ? PlainWeightIndex(id, k, args.padded_out)
          : WeightIndexIn(args.plain_rows, id, PackedK(args.leaves, k), Chunks(args.leaves));
  args.out[row * args.out_stride + k] = LoadValue(args.weight, args.type, from);
}

}  // namespace

void LaunchPackRows(const PackRowsArgs& args, Launcher* launcher) {
  if (!args.bf16) {
    return LaunchEarly(&PackF16Rows, {args.rows, args.leaves.leaves}, kRowThreads,
                       kReduceSharedBytes, launcher, args);
  }
  if (args.wide || args.pieces > 0) {
    const Grid grid = GridOver((args.rows + kPieceRows - 1) / kPieceRows, Chunks(args.leaves),
                               kRowThreads / kWarp);
    const bool fours = HasFours(args.in, args.in_stride) && HasFours(args.leaves);
    return LaunchEarly(fours ? &PackWideBf16Rows<true> : &PackWideBf16Rows<false>, grid,
                       kRowThreads, 0, launcher, args);
  }
  LaunchEarly(&PackBf16Rows, GridOver(args.rows, Chunks(args.leaves) * kChunkK, kRowThreads),
              kRowThreads, 0, launcher, args);
}

void LaunchPackWeight(const PackWeightArgs& args, Launcher* launcher) {
  const int64_t count = args.rows * args.leaves.begin[args.leaves.leaves];
  Launch(&PackWeight, {(count + kRowThreads - 1) / kRowThreads}, kRowThreads, 0, launcher, args);
}

void LaunchEmbed(const EmbedArgs& args, Launcher* launcher) {
  const int64_t count = int64_t{1} * args.rows * args.leaves.begin[args.leaves.leaves];
  LaunchEarly(&Embed, {(count + kRowThreads - 1) / kRowThreads}, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
