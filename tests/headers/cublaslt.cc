// Compiles if cuBLASLt's header declares what kernels/cuda/cublaslt_interface.h says of it.
#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

#include "kernels/cuda/cublaslt_interface.h"

using said = tutti::kernels::cuda::CublasLtTypes;

static_assert(sizeof(said::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(said::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
#define SAME_FIELD(field, theirs)                         \
  static_assert(offsetof(said::HeuristicResult, field) == \
                offsetof(cublasLtMatmulHeuristicResult_t, theirs))
SAME_FIELD(algorithm, algo);
SAME_FIELD(work_space, workspaceSize);
SAME_FIELD(state, state);
SAME_FIELD(waves, wavesCount);

static_assert(said::kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(said::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(said::kFloat32 == CUDA_R_32F);
static_assert(said::kFloat16 == CUDA_R_16F);
static_assert(said::kBfloat16 == CUDA_R_16BF);
static_assert(said::kCompute32 == CUBLAS_COMPUTE_32F);
static_assert(said::kPlain == CUBLAS_OP_N);
static_assert(said::kTransposed == CUBLAS_OP_T);
static_assert(said::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(said::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(said::kWorkSpaceMax == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(said::kAlignmentOfA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(said::kAlignmentOfA + 1 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(said::kAlignmentOfA + 2 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(said::kAlignmentOfA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

// Enumerations are passed as ints, descriptors and streams as pointers.
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int) &&
              sizeof(cublasComputeType_t) == sizeof(int) &&
              sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int) &&
              sizeof(cublasLtMatmulPreferenceAttributes_t) == sizeof(int));
static_assert(std::is_pointer_v<cublasLtHandle_t> && std::is_pointer_v<cublasLtMatmulDesc_t> &&
              std::is_pointer_v<cublasLtMatrixLayout_t> &&
              std::is_pointer_v<cublasLtMatmulPreference_t> && std::is_pointer_v<cudaStream_t>);

#define SAME_FUNCTION(function, ...) \
  static_assert(std::is_same_v<decltype(&function), cublasStatus_t (*)(__VA_ARGS__)>)

static_assert(std::is_same_v<decltype(&cublasLtGetVersion), size_t (*)()>);
static_assert(std::is_same_v<decltype(&cublasLtGetStatusString), const char* (*)(cublasStatus_t)>);
SAME_FUNCTION(cublasLtCreate, cublasLtHandle_t*);
SAME_FUNCTION(cublasLtDestroy, cublasLtHandle_t);
SAME_FUNCTION(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t);
SAME_FUNCTION(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t);
SAME_FUNCTION(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
              const void*, size_t);
SAME_FUNCTION(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t,
              int64_t);
SAME_FUNCTION(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t);
SAME_FUNCTION(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t*);
SAME_FUNCTION(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t);
SAME_FUNCTION(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t,
              cublasLtMatmulPreferenceAttributes_t, const void*, size_t);
SAME_FUNCTION(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t,
              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
              cublasLtMatmulHeuristicResult_t*, int*);
SAME_FUNCTION(cublasLtMatmul, cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*,
              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*,
              void*, size_t, cudaStream_t);
