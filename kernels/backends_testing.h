// The backends that tests run on. What a test program is linked with decides which these are: this
// machine's (machine_backends_testing.cc), unless an object before that library defines others
// (cuda/emulated/emulated_backends_testing.cc). The tests themselves are compiled once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace tutti::kernels {

namespace cuda {
class Nccl;
}

// For tests of operators: every instruction set of this machine's CPU, the emulation among them,
// and its first GPU, "cuda:0"; or only "cuda-emulated".
std::vector<std::string> TestedBackends();

// For tests of whole models: "reference", "cpu" and this machine's first GPU, "cuda:0"; or only
// "cuda-emulated".
std::vector<std::string> TestedModelBackends();

// A backend of either list, or any that CreateBackend knows. An instruction set's name takes the
// place of `options.instruction_set`. The emulated GPU's worker finds `nccl`; null: none. Dies of a
// CHECK where this machine lacks the backend.
std::unique_ptr<Backend> MakeTestedBackend(const std::string& name,
                                           const BackendOptions& options = {},
                                           std::shared_ptr<cuda::Nccl> nccl = nullptr);

// What the emulated GPUs of several workers exchange through; null on this machine's backends.
std::shared_ptr<cuda::Nccl> NewTestedNccl();

}  // namespace tutti::kernels
