// Qualifiers of kernels and of functions that kernels call: CUDA's on a GPU; nothing, or `inline`,
// where the host's compiler translates the same source, for the index arithmetic of tests or for
// the emulated GPU.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>

#define TUTTI_KERNEL __global__
// One that is started with so many threads a block at most, and has registers for them.
#define TUTTI_KERNEL_OF(threads) __global__ __launch_bounds__(threads)
// The same, so many blocks of which fit on a multiprocessor at once.
#define TUTTI_RESIDENT_KERNEL_OF(threads, blocks) __global__ __launch_bounds__(threads, blocks)
// Qualifies a kernel's one parameter, so that it is read where the launch put it.
#define TUTTI_PARAMETER const __grid_constant__
#define TUTTI_DEVICE __device__ __forceinline__
#define TUTTI_HOST_DEVICE __host__ __device__ __forceinline__
// A function of the device that is compiled once, where inlining it everywhere takes ptxas minutes.
#define TUTTI_DEVICE_CALL static __device__ __noinline__
// Before a loop: one copy of its body per turn, or one for all.
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_KEEP_LOOP _Pragma("unroll 1")

#else

#define TUTTI_KERNEL
#define TUTTI_KERNEL_OF(threads)
#define TUTTI_RESIDENT_KERNEL_OF(threads, blocks)
#define TUTTI_PARAMETER const
#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_CALL inline
#define TUTTI_UNROLL
#define TUTTI_KEEP_LOOP
#define TUTTI_HOST_DEVICE inline

#endif
