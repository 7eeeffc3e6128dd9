// Every test of a program that this object is linked into runs on the emulated GPU.
#include "kernels/backends_testing.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels {
namespace {

std::shared_ptr<cuda::Nccl> NewNccl() { return std::make_shared<cuda::EmulatedNccl>(); }

std::unique_ptr<Backend> Make(const BackendOptions& options, std::shared_ptr<cuda::Nccl> nccl) {
  return cuda::MakeEmulatedBackend(options, std::move(nccl));
}

[[maybe_unused]] const bool kRegistered = RegisterTestDevice(
    {.name = "cuda-emulated", .make = Make, .new_nccl = NewNccl});

}  // namespace
}  // namespace tutti::kernels
