#include "kernels/cuda/number_formats.h"
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

// Rows for wgmma: a warp has a piece, so that each of its four stores is 128 bytes in a row.
TUTTI_KERNEL void PackWideBf16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int32_t chunks = Chunks(args.leaves);
  const auto chunk = static_cast<int32_t>(BlockY() * (ThreadCount() / kWarp) + WarpIndex());
  if (chunk >= chunks) return;
  const int lane = Lane();
  const int64_t row = BlockX() * kPieceRows + lane / 4;
  int32_t leaf = 0;
  while (chunk >= args.leaves.chunk[leaf + 1]) ++leaf;
  const int32_t k =
      args.leaves.begin[leaf] + (chunk - args.leaves.chunk[leaf]) * kChunkK + lane % 4 * 8;
  const int32_t left = row < args.rows ? args.leaves.begin[leaf + 1] - k : 0;
  const float* const in = args.in + row * args.in_stride + k;
  auto* const out = reinterpret_cast<uint32_t*>(
      args.out + WideActivationIndex(BlockX() * kPieceRows, chunk * kChunkK, chunks));
  TUTTI_UNROLL
  for (int word = 0; word < 4; ++word) {
    const uint32_t low = ToBf16(2 * word < left ? in[2 * word] : 0);
    const uint32_t high = ToBf16(2 * word + 1 < left ? in[2 * word + 1] : 0);
    out[word * kWarp + lane] = low | high << 16;
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
                                 : ActivationIndex(row, first + k, chunks);
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
  if (i >= args.rows * width) return;
  const int64_t row = i / width, id = args.ids[row];
  const auto k = static_cast<int32_t>(i % width);
  const int64_t from =
      args.type == DType::kF32
          ? PlainWeightIndex(id, k, args.padded_out)
          : WeightIndexIn(args.plain_rows, id, PackedK(args.leaves, k), Chunks(args.leaves));
  args.out[row * args.out_stride + k] = LoadValue(args.weight, args.type, from);
}

template <class Args>
void LaunchOverElements(void (*kernel)(Args), int64_t count, const Args& args, Launcher* launcher) {
  Launch(kernel, {(count + kRowThreads - 1) / kRowThreads}, kRowThreads, 0, launcher, args);
}

}  // namespace

void LaunchPackRows(const PackRowsArgs& args, Launcher* launcher) {
  if (!args.bf16) {
    return LaunchEarly(&PackF16Rows, {args.rows, args.leaves.leaves}, kRowThreads,
                       kReduceSharedBytes, launcher, args);
  }
  if (args.wide) {
    const Grid grid = GridOver((args.rows + kPieceRows - 1) / kPieceRows, Chunks(args.leaves),
                               kRowThreads / kWarp);
    return Launch(&PackWideBf16Rows, grid, kRowThreads, 0, launcher, args);
  }
  LaunchEarly(&PackBf16Rows, GridOver(args.rows, Chunks(args.leaves) * kChunkK, kRowThreads),
              kRowThreads, 0, launcher, args);
}

void LaunchPackWeight(const PackWeightArgs& args, Launcher* launcher) {
  LaunchOverElements(&PackWeight, args.rows * args.leaves.begin[args.leaves.leaves], args,
                     launcher);
}

void LaunchEmbed(const EmbedArgs& args, Launcher* launcher) {
  LaunchOverElements(&Embed, int64_t{1} * args.rows * args.leaves.begin[args.leaves.leaves], args,
                     launcher);
}

}  // namespace tutti::kernels::cuda
