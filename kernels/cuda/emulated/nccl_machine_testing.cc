#include "kernels/cuda/nccl_machine_testing.h"

#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels::cuda {
namespace {

absl::StatusOr<NcclMachine> Open() {
  return NcclMachine{.nccl = std::make_shared<EmulatedNccl>(), .open_runtime = [] {
                       return absl::StatusOr<std::unique_ptr<Runtime>>(MakeEmulatedRuntime());
                     }};
}

[[maybe_unused]] const bool kSet = (open_nccl_machine = Open, true);

}  // namespace
}  // namespace tutti::kernels::cuda
