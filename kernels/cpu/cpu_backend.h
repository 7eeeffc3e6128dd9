// The backend of ordinary processors: vector kernels chosen once by instruction set, run by a pool
// of threads.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels {

// See CreateBackend and kernels/cpu/instruction_set.h for the options.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options);

}  // namespace tutti::kernels
