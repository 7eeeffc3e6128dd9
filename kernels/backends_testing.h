// The backends that tests run on: this machine's, unless the test program is linked with an object
// that registers others (cuda/emulated/device_testing.cc). The tests are compiled once.
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

// The library through which the emulated GPUs of several workers exchange; null on this machine's
// backends.
std::shared_ptr<cuda::Nccl> NewTestedNccl();

// A device that every test of a program runs on in place of this machine's.
struct TestDevice {
  std::string name;
  std::unique_ptr<Backend> (*make)(const BackendOptions& options, std::shared_ptr<cuda::Nccl> nccl);
  std::shared_ptr<cuda::Nccl> (*new_nccl)();
};

// For the initializer of a variable of namespace scope, in at most one object of a program.
bool RegisterTestDevice(const TestDevice& device);

}  // namespace tutti::kernels
