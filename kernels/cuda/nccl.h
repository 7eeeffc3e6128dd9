// The part of NCCL that is used, behind an interface: the library itself (nccl_library), or one of
// threads of this process for tests (emulated/nccl_emulated).
//
// Written from NCCL's documentation of its C API, 2.14 and later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

// By which the ranks of a new group find each other. NCCL's 128 bytes.
using NcclGroupId = std::array<std::byte, 128>;

// One rank's place in a group. Operations are queued on a stream.
//
// Thread: one at a time; Abort also while another thread is inside an operation, which then fails.
// Errors are INTERNAL, with the operation and NCCL's message.
class NcclGroup {
 public:
  virtual ~NcclGroup() = default;  // after Abort, or when nothing is queued

  // to [ranks, count] := every rank's from [count]
  virtual absl::Status AllGather(const float* from, float* to, int64_t count, Stream stream) = 0;
  // Sends and receives between Begin and End are one operation. All on one stream.
  virtual absl::Status Begin() = 0;
  virtual absl::Status Send(const void* from, int64_t bytes, int peer, Stream stream) = 0;
  virtual absl::Status Receive(void* to, int64_t bytes, int peer, Stream stream) = 0;
  virtual absl::Status End() = 0;

  // Errors of operations in the background.
  virtual absl::Status Health() = 0;
  // Gives up everything queued; the stream goes on behind it with unspecified values.
  virtual void Abort() = 0;
};

class Nccl {
 public:
  virtual ~Nccl() = default;

  // 10000 * major + 100 * minor + patch
  virtual int version() const = 0;
  virtual absl::StatusOr<NcclGroupId> NewGroup() = 0;
  // Returns when all ranks have joined, which may be never. `device_index`: of the calling thread
  // from now on.
  virtual absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const NcclGroupId& id, int ranks,
                                                          int rank, int device_index) = 0;
};

// Opens the library when it is first needed. UNAVAILABLE: there is none, with where it was looked
// for; FAILED_PRECONDITION: it is too old or lacks a function.
using NcclOpener = std::function<absl::StatusOr<std::shared_ptr<Nccl>>()>;

}  // namespace tutti::kernels::cuda
