// cuBLASLt as the shared library of this machine, opened only for the class that computes by it.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/cublaslt.h"

namespace tutti::kernels::cuda {

// The oldest cuBLASLt that is accepted: 12.0, of CUDA 12.
inline constexpr int64_t kCublasLtVersionMin = 120000;

// "13.0.2"
std::string CublasLtVersionName(int64_t version);

// Makes this thread's CUDA calls go to the device; 0 or an error. Null: there is nothing to do.
using UseDevice = int (*)(int device_index);

// For the device of that index.  `path`: the name given to the dynamic linker; empty: each of those
// that NVIDIA installs it under. UNAVAILABLE: there is none, with where it was looked for;
// FAILED_PRECONDITION: it is too old, or lacks a function; INTERNAL: it does not work here.
absl::StatusOr<std::shared_ptr<CublasLt>> OpenCublasLtLibrary(const std::string& path,
                                                              int device_index,
                                                              UseDevice use_device);

// TUTTI_CUBLASLT_LIBRARY; empty: not set.
std::string CublasLtLibraryPath();

}  // namespace tutti::kernels::cuda
