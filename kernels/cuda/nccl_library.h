// NCCL as the shared library of this machine, opened when it is first needed: workers run where
// there is none.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/nccl.h"

namespace tutti::kernels::cuda {

// The oldest NCCL that is accepted: 2.14, of 2022.
inline constexpr int kNcclVersionMin = 21400;

// "2.14.3"
std::string NcclVersionName(int version);

// Makes this thread's CUDA calls go to a device; 0 or an error.
using UseDeviceFunction = int (*)(int device_index);

// `path`: the name given to the dynamic linker.
absl::StatusOr<std::shared_ptr<Nccl>> OpenNcclLibrary(const std::string& path,
                                                      UseDeviceFunction use_device);

// TUTTI_NCCL_LIBRARY, or the name NCCL installs itself under.
std::string NcclLibraryPath();

}  // namespace tutti::kernels::cuda
