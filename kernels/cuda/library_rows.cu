#include "kernels/cuda/library_rows.h"
#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {
namespace {

// A block per row, as a row of f16 has one scale.
template <bool kBf16>
TUTTI_KERNEL void PlainRows(TUTTI_PARAMETER PlainRowsArgs args) {
  const int64_t row = BlockX();
  const int32_t chunks = Chunks(args.leaves);
  const float* const in = args.in + row * args.in_stride;
  LetNextBegin();
  WaitForEarlier();
  float inverse = 1;
  if constexpr (!kBf16) {
    const int32_t length = args.leaves.begin[args.leaves.leaves];
    float largest = 0;
    for (int32_t k = ThreadIndex(); k < length; k += kRowThreads) {
      largest = LargestFinite(largest, in[k]);
    }
    const float scale = F16Scale(ReduceBlock(largest, Larger()));
    inverse = 1 / scale;
    if (ThreadIndex() == 0) args.scale[row] = scale;
  }
  for (int32_t packed = ThreadIndex(); packed < chunks * kChunkK; packed += kRowThreads) {
    const int32_t k = SourceK(args.leaves, packed);
    const float value = k < 0 ? 0 : in[k];
    args.out[PlainRowIndex(row, packed, chunks)] = To16<kBf16>(kBf16 ? value : value * inverse);
  }
}

// Most rows need nothing: their block ends at once.
TUTTI_KERNEL void ScaleBackRows(TUTTI_PARAMETER ScaleBackRowsArgs args) {
  LetNextBegin();
  WaitForEarlier();
  const int64_t row = BlockX();
  const float scale = args.scale[row];
  if (scale == 1) return;
  for (int64_t c = ThreadIndex(); c < args.cols; c += kRowThreads) {
    args.out[row * args.out_stride + c] *= scale;
  }
}

}  // namespace

void LaunchPlainRows(const PlainRowsArgs& args, Launcher* launcher) {
  LaunchEarly(args.bf16 != 0 ? &PlainRows<true> : &PlainRows<false>, {args.rows}, kRowThreads,
              kReduceSharedBytes, launcher, args);
}

void LaunchScaleBackRows(const ScaleBackRowsArgs& args, Launcher* launcher) {
  LaunchEarly(&ScaleBackRows, {args.rows}, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
