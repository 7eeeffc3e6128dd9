// Every test of a program that this object is linked into runs on the emulated GPU.
#include "kernels/backends_testing.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels {
namespace {

std::shared_ptr<cuda::Nccl> NewNccl() { return std::make_shared<cuda::EmulatedNccl>(); }

[[maybe_unused]] const bool kRegistered = RegisterTestDevice(
    {.name = "cuda-emulated", .make = cuda::MakeEmulatedBackend, .new_nccl = NewNccl});

}  // namespace
}  // namespace tutti::kernels
