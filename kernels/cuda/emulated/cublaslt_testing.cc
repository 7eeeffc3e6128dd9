// cuBLASLt in the hands of tests, which open it as workers open the real one: it computes on the
// host what it is asked for, by the layouts that it was given, and refuses what the real one would.
// Sums begin at another k for each number of columns of B, so bits depend on the rows of a step.
// All of the work space is written over.
//
// CUBLASLT_TESTING: "no algorithm": it has none; "no algorithm of 200": none for 200 columns of B;
// "fails": products fail; "no device": it cannot start. Built with OLD=1 it says 11.8, with
// WITHOUT_MULTIPLY=1 it lacks that function.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/cuda/cublaslt_interface.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cuda {
namespace {

using Types = CublasLtTypes;

constexpr int kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13;

struct Operation {
  int compute = 0, scale_type = 0;
  int transpose[2] = {Types::kPlain, Types::kPlain};
};
struct Matrix {
  int type = 0;
  uint64_t rows = 0, cols = 0;
  int64_t leading = 0;
};
struct Preferred {
  uint64_t work_space = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

bool Wants(const char* what) {
  const char* const set = std::getenv("CUBLASLT_TESTING");
  return set != nullptr && std::string(set) == what;
}

bool IsSixteen(int type) { return type == Types::kFloat16 || type == Types::kBfloat16; }

// What the algorithm was chosen for; a product of anything else is refused.
Types::Algorithm AlgorithmOf(const Operation& op, const Matrix& a, const Matrix& b, const Matrix& d,
                             uint32_t alignment) {
  return {{a.rows, a.cols, b.rows, b.cols, static_cast<uint64_t>(d.leading),
           static_cast<uint64_t>(a.type * 100 + b.type), static_cast<uint64_t>(op.transpose[0]),
           alignment}};
}

// Whether D = op(A) op(B) has one meaning, and tensor cores take it.
bool Fits(const Operation& op, const Matrix& a, const Matrix& b, const Matrix& d) {
  const bool ta = op.transpose[0] == Types::kTransposed, tb = op.transpose[1] == Types::kTransposed;
  const uint64_t m = ta ? a.cols : a.rows, k = ta ? a.rows : a.cols;
  const uint64_t n = tb ? b.rows : b.cols;
  return op.compute == Types::kCompute32 && op.scale_type == Types::kFloat32 && IsSixteen(a.type) &&
         a.type == b.type && d.type == Types::kFloat32 && k == (tb ? b.cols : b.rows) &&
         m == d.rows && n == d.cols && a.leading % 8 == 0 && b.leading % 8 == 0;
}

float ValueAt(const Matrix& matrix, const void* data, uint64_t row, uint64_t col) {
  const uint16_t bits =
      static_cast<const uint16_t*>(data)[col * static_cast<uint64_t>(matrix.leading) + row];
  return matrix.type == Types::kBfloat16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED size_t cublasLtGetVersion() {
#ifdef OLD
  return 110800;
#else
  return 130100;
#endif
}

EXPORTED const char* cublasLtGetStatusString(int status) {
  switch (status) {
    case kNotInitialized:
      return "the library was not initialized";
    case kInvalidValue:
      return "an unsupported value or parameter was passed to the function";
    case kExecutionFailed:
      return "the GPU program failed to execute";
    default:
      return "unknown";
  }
}

EXPORTED int cublasLtCreate(void** handle) {
  if (Wants("no device")) return kNotInitialized;
  *handle = new int(7);
  return Types::kSuccess;
}
EXPORTED int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return Types::kSuccess;
}

EXPORTED int cublasLtMatmulDescCreate(void** operation, int compute, int scale_type) {
  *operation = new Operation{.compute = compute, .scale_type = scale_type};
  return Types::kSuccess;
}
EXPORTED int cublasLtMatmulDescDestroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return Types::kSuccess;
}
EXPORTED int cublasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value,
                                            size_t bytes) {
  const int which = attribute - Types::kTransposeA;
  if (which < 0 || which > 1 || bytes != sizeof(int32_t)) return kInvalidValue;
  std::memcpy(&static_cast<Operation*>(operation)->transpose[which], value, bytes);
  return Types::kSuccess;
}

EXPORTED int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols,
                                        int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return kInvalidValue;
  *layout = new Matrix{type, rows, cols, leading};
  return Types::kSuccess;
}
EXPORTED int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Matrix*>(layout);
  return Types::kSuccess;
}

EXPORTED int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preferred;
  return Types::kSuccess;
}
EXPORTED int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preferred*>(preference);
  return Types::kSuccess;
}
EXPORTED int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute,
                                                  const void* value, size_t bytes) {
  auto* const preferred = static_cast<Preferred*>(preference);
  const int which = attribute - Types::kAlignmentOfA;
  if (attribute == Types::kWorkSpaceMax && bytes == sizeof(uint64_t)) {
    std::memcpy(&preferred->work_space, value, bytes);
  } else if (which >= 0 && which < 4 && bytes == sizeof(uint32_t)) {
    std::memcpy(&preferred->alignments[which], value, bytes);
  } else {
    return kInvalidValue;
  }
  return Types::kSuccess;
}

EXPORTED int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b,
                                            void* c, void* d, void* preference, int wanted,
                                            Types::HeuristicResult* results, int* found) {
  const auto& op = *static_cast<const Operation*>(operation);
  const auto &left = *static_cast<const Matrix*>(a), &right = *static_cast<const Matrix*>(b);
  const auto& out = *static_cast<const Matrix*>(d);
  const auto& preferred = *static_cast<const Preferred*>(preference);
  *found = 0;
  if (handle == nullptr || wanted < 1 || static_cast<Matrix*>(c)->cols != out.cols) {
    return kInvalidValue;
  }
  if (Wants("no algorithm") || !Fits(op, left, right, out)) return Types::kNotSupported;
  if (Wants("no algorithm of 200") && right.cols == 200) return Types::kNotSupported;
  results[0] = {.algorithm = AlgorithmOf(op, left, right, out, preferred.alignments[3]),
                .work_space = preferred.work_space,
                .state = Types::kSuccess,
                .waves = 1,
                .reserved = {}};
  *found = 1;
  return Types::kSuccess;
}

#ifdef WITHOUT_MULTIPLY
#define cublasLtMatmul of_another_name
#endif
EXPORTED int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a,
                            void* a_layout, const void* b, void* b_layout, const void* beta,
                            const void* c, void* c_layout, void* d, void* d_layout,
                            const Types::Algorithm* algorithm, void* work_space,
                            size_t work_space_bytes, void* stream) {
  const auto& op = *static_cast<const Operation*>(operation);
  const auto& left = *static_cast<const Matrix*>(a_layout);
  const auto& right = *static_cast<const Matrix*>(b_layout);
  const auto& out = *static_cast<const Matrix*>(d_layout);
  if (handle == nullptr || stream != nullptr || c != d || c_layout != d_layout) {
    return kInvalidValue;
  }
  if (Wants("fails")) return kExecutionFailed;
  const auto alignment = static_cast<uint32_t>(algorithm->data[7]);
  const Types::Algorithm own = AlgorithmOf(op, left, right, out, alignment);
  if (std::memcmp(&own, algorithm, sizeof(own)) != 0 || !Fits(op, left, right, out) ||
      reinterpret_cast<uintptr_t>(d) % alignment != 0) {
    return kInvalidValue;
  }
  // All of it is the library's.
  std::memset(work_space, 0xee, work_space_bytes);
  const bool ta = op.transpose[0] == Types::kTransposed, tb = op.transpose[1] == Types::kTransposed;
  const uint64_t depth = ta ? left.rows : left.cols;
  const uint64_t first = right.cols % (depth + 1);  // another order for another number of rows
  const float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  for (uint64_t n = 0; n < out.cols; ++n) {
    for (uint64_t m = 0; m < out.rows; ++m) {
      float sum = 0;
      for (uint64_t i = 0; i < depth; ++i) {
        const uint64_t k = (first + i) % depth;
        const float x = ta ? ValueAt(left, a, k, m) : ValueAt(left, a, m, k);
        const float y = tb ? ValueAt(right, b, n, k) : ValueAt(right, b, k, n);
        sum += x * y;
      }
      float& to = static_cast<float*>(d)[n * static_cast<uint64_t>(out.leading) + m];
      to = keep == 0 ? scale * sum : scale * sum + keep * to;
    }
  }
  return Types::kSuccess;
}

}  // namespace tutti::kernels::cuda
