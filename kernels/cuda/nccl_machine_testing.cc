#include "kernels/cuda/nccl_machine_testing.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/cuda/runtime_cuda.h"

namespace tutti::kernels::cuda {
namespace {

// The first NCCL in which ranks may share a GPU, by NCCL_MULTI_RANK_GPU_ENABLE: an experiment of
// NVIDIA's, so only where this variable asks for it too.
constexpr int kSharesGpusSince = 23000;
constexpr char kTwoRanks[] = "TUTTI_TEST_NCCL_TWO_RANKS";

std::string WhyNotTwo(int version) {
  if (std::getenv(kTwoRanks) == nullptr) {
    return absl::StrCat(kTwoRanks, "=1 has two ranks share the GPU");
  }
  if (version >= kSharesGpusSince) return "";
  return absl::StrCat("NCCL ", NcclVersionName(version), ": ranks share a GPU from ",
                      NcclVersionName(kSharesGpusSince), " on");
}

absl::StatusOr<NcclMachine> Open() {
  // Before NCCL reads them. Its sockets stay on this machine.
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  if (std::getenv(kTwoRanks) != nullptr) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  const auto open_runtime = [] { return OpenDevice(0, QueueKind::kTransfers); };
  TUTTI_RETURN_IF_ERROR(open_runtime().status());
  TUTTI_ASSIGN_OR_RETURN(auto nccl, OpenNcclLibrary(NcclLibraryPath(), [](int index) {
                           return static_cast<int>(cudaSetDevice(index));
                         }));
  const int version = nccl->version();
  return NcclMachine{
      .nccl = std::move(nccl), .open_runtime = open_runtime, .why_not_two = WhyNotTwo(version)};
}

[[maybe_unused]] const bool kSet = (open_nccl_machine = Open, true);

}  // namespace
}  // namespace tutti::kernels::cuda
