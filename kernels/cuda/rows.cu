#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"
#include "kernels/cuda/rows.h"

namespace tutti::kernels::cuda {
namespace {

// A block per row.
TUTTI_KERNEL void RmsNorm(TUTTI_PARAMETER RmsNormArgs args) {
  const float* const in = args.in + BlockX() * args.in_stride;
  float* const out = args.out + BlockX() * args.out_stride;
  float sum = 0;
  for (int64_t i = ThreadIndex(); i < args.cols; i += kRowThreads) {
    sum = FusedMultiplyAdd(in[i], in[i], sum);
  }
  sum = ReduceBlock(sum, Sum());
  const float inverse = InverseRms(sum, args.cols, args.epsilon);
  for (int64_t i = ThreadIndex(); i < args.cols; i += kRowThreads) {
    out[i] = in[i] * inverse * args.weight[i];
  }
}

// A warp per row and head.
TUTTI_KERNEL void HeadNormRope(TUTTI_PARAMETER HeadNormRopeArgs args) {
  float* const x = args.x + BlockX() * args.stride + BlockY() * args.head_dim;
  const int32_t half = args.head_dim / 2;
  float inverse = 1;
  if (args.norm != nullptr) {
    float sum = 0;
    for (int32_t i = Lane(); i < args.head_dim; i += kWarp) {
      sum = FusedMultiplyAdd(x[i], x[i], sum);
    }
    sum = ReduceWarp(sum, Sum());
    inverse = InverseRms(sum, args.head_dim, args.epsilon);
  }
  const auto position = static_cast<float>(args.position[BlockX()]);
  for (int32_t i = Lane(); i < half; i += kWarp) {
    float a = x[i], b = x[i + half];
    if (args.norm != nullptr) {
      a = a * inverse * args.norm[i];
      b = b * inverse * args.norm[i + half];
    }
    const float angle = position * args.inverse_frequency[i];
    const Turned turned = Turn(a, b, cosf(angle), sinf(angle));
    x[i] = turned.a;
    x[i + half] = turned.b;
  }
}

// Applies `compute`(row, column) over all elements of GridOver.
template <class Fn>
TUTTI_DEVICE void ForElement(const ElementArgs& args, const Fn& compute) {
  const int64_t column = BlockY() * ThreadCount() + ThreadIndex();
  if (column < args.cols) compute(BlockX(), column);
}

TUTTI_KERNEL void AddRow(TUTTI_PARAMETER ElementArgs args) {
  ForElement(args, [&](int64_t r, int64_t i) {
    static_cast<float*>(args.out)[r * args.out_stride + i] =
        static_cast<const float*>(args.a)[r * args.a_stride + i] + args.b[i];
  });
}

TUTTI_KERNEL void SiluMul(TUTTI_PARAMETER ElementArgs args) {
  ForElement(args, [&](int64_t r, int64_t i) {
    const float* const row = static_cast<const float*>(args.a) + r * args.a_stride;
    static_cast<float*>(args.out)[r * args.out_stride + i] = SiluTimes(row[i], row[args.cols + i]);
  });
}

TUTTI_KERNEL void AddRounded(TUTTI_PARAMETER ElementArgs args) {
  ForElement(args, [&](int64_t r, int64_t i) {
    const float sum =
        static_cast<const float*>(args.a)[r * args.a_stride + i] + args.b[r * args.b_stride + i];
    static_cast<float*>(args.out)[r * args.out_stride + i] = RoundValue(args.out_type, sum);
  });
}

TUTTI_KERNEL void Convert(TUTTI_PARAMETER ElementArgs args) {
  ForElement(args, [&](int64_t r, int64_t i) {
    StoreValue(args.out, args.out_type, r * args.out_stride + i,
               LoadValue(args.a, args.a_type, r * args.a_stride + i));
  });
}

void LaunchElements(void (*kernel)(ElementArgs), const ElementArgs& args, Launcher* launcher) {
  Launch(kernel, GridOver(args.rows, args.cols, kRowThreads), kRowThreads, 0, launcher, args);
}

}  // namespace

void LaunchRmsNorm(const RmsNormArgs& args, Launcher* launcher) {
  Launch(&RmsNorm, {args.rows, 1}, kRowThreads, kReduceSharedBytes, launcher, args);
}
void LaunchHeadNormRope(const HeadNormRopeArgs& args, Launcher* launcher) {
  Launch(&HeadNormRope, {args.rows, args.heads}, kWarp, 0, launcher, args);
}
void LaunchAddRow(const ElementArgs& args, Launcher* launcher) {
  LaunchElements(&AddRow, args, launcher);
}
void LaunchSiluMul(const ElementArgs& args, Launcher* launcher) {
  LaunchElements(&SiluMul, args, launcher);
}
void LaunchAddRounded(const ElementArgs& args, Launcher* launcher) {
  LaunchElements(&AddRounded, args, launcher);
}
void LaunchConvert(const ElementArgs& args, Launcher* launcher) {
  LaunchElements(&Convert, args, launcher);
}

}  // namespace tutti::kernels::cuda
