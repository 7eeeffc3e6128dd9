// What the tests of NCCL's part in a device's life run on: the library and the GPU of this machine
// (nccl_machine_testing.cc), or the emulated ones (emulated/nccl_machine_testing.cc).
#pragma once

#include <memory>

#include "base/status.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/nccl_membership.h"

namespace tutti::kernels::cuda {

struct NcclMachine {
  std::shared_ptr<Nccl> nccl;
  RuntimeOpener open_runtime;  // queues of GPU 0
  // Why two ranks cannot share the GPU; "": they can.
  std::string why_not_two;
};

// Set by the object that the test program is linked with. UNAVAILABLE: there is no GPU or no NCCL
// here, with the reason. Other errors are faults.
inline absl::StatusOr<NcclMachine> (*open_nccl_machine)() = nullptr;

}  // namespace tutti::kernels::cuda
