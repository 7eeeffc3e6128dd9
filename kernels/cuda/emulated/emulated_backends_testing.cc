// Every test of a program that this object is linked into runs on the emulated GPU.
#include <utility>

#include "base/check.h"
#include "kernels/backends_testing.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels {

std::vector<std::string> TestedBackends() { return {"cuda-emulated"}; }

std::vector<std::string> TestedModelBackends() { return {"cuda-emulated"}; }

std::unique_ptr<Backend> MakeTestedBackend(const std::string& name, const BackendOptions& options,
                                           std::shared_ptr<cuda::Nccl> nccl) {
  if (name == "cuda-emulated") return cuda::MakeEmulatedBackend(options, std::move(nccl));
  auto backend = CreateBackend(name, options);
  CHECK(backend.ok()) << backend.status();
  return *std::move(backend);
}

std::shared_ptr<cuda::Nccl> NewTestedNccl() { return std::make_shared<cuda::EmulatedNccl>(); }

}  // namespace tutti::kernels
