// cuBLASLt's C interface, as far as it is called: written down here because workers are built and
// run where there is none of it. tests/headers holds it against the maker's. Enumerations are ints.
//
// Written from NVIDIA's documentation of cuBLASLt, 12 and 13.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels::cuda {

struct CublasLtTypes {
  static constexpr int kSuccess = 0;
  static constexpr int kNotSupported = 15;

  // Types of numbers (cudaDataType), and of sums (cublasComputeType_t).
  static constexpr int kFloat32 = 0;
  static constexpr int kFloat16 = 2;
  static constexpr int kBfloat16 = 14;
  static constexpr int kCompute32 = 68;

  static constexpr int kPlain = 0;
  static constexpr int kTransposed = 1;

  // Attributes: of an operation, an int each; of a preference, a uint64_t, then a uint32_t each.
  static constexpr int kTransposeA = 3;
  static constexpr int kTransposeB = 4;
  static constexpr int kWorkSpaceMax = 1;
  static constexpr int kAlignmentOfA = 5;  // B, C and D follow

  struct Algorithm {
    uint64_t data[8];
  };
  struct HeuristicResult {
    Algorithm algorithm;
    size_t work_space;
    int state;
    float waves;
    int reserved[4];
  };

  using Handle = void*;
  using Operation = void*;
  using Layout = void*;
  using Preference = void*;

  // Matrices are columns after columns, `leading` values apart.
  struct Functions {
    size_t (*get_version)();
    const char* (*get_status_string)(int);
    int (*create)(Handle*);
    int (*destroy)(Handle);
    int (*operation_create)(Operation*, int compute, int scale_type);
    int (*operation_destroy)(Operation);
    int (*operation_set)(Operation, int attribute, const void*, size_t);
    int (*layout_create)(Layout*, int type, uint64_t rows, uint64_t cols, int64_t leading);
    int (*layout_destroy)(Layout);
    int (*preference_create)(Preference*);
    int (*preference_destroy)(Preference);
    int (*preference_set)(Preference, int attribute, const void*, size_t);
    int (*get_heuristic)(Handle, Operation, Layout a, Layout b, Layout c, Layout d, Preference,
                         int wanted, HeuristicResult*, int* found);
    int (*multiply)(Handle, Operation, const void* alpha, const void* a, Layout, const void* b,
                    Layout, const void* beta, const void* c, Layout, void* d, Layout,
                    const Algorithm*, void* work_space, size_t work_space_bytes, void* stream);
  };
};

}  // namespace tutti::kernels::cuda
