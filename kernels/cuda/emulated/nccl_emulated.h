// NCCL among threads of this process, for tests: the same interface over the emulated GPU. Where
// the real one queues, this one waits at once, until all ranks have come or the group is given up.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/nccl.h"

namespace tutti::kernels::cuda {

class EmulatedNccl : public Nccl {
 public:
  explicit EmulatedNccl(int version = 21803) : version_(version) {}

  int version() const override { return version_; }
  absl::StatusOr<NcclGroupId> NewGroup() override;
  absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const NcclGroupId& id, int ranks, int rank,
                                                  int device_index) override;

  // The error that Health returns from now on, for every group; "" for none.
  void set_background_error(std::string error);
  // The error with which Join fails; "" for none.
  void set_join_error(std::string error);
  int64_t operations() const { return operations_; }  // of all ranks

 private:
  struct Meeting;  // of one group
  class Group;

  const int version_;
  std::atomic<int64_t> operations_{0};
  Mutex mutex_;
  int64_t groups_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<NcclGroupId, std::shared_ptr<Meeting>> meetings_ ABSL_GUARDED_BY(mutex_);
  std::string background_error_ ABSL_GUARDED_BY(mutex_);
  std::string join_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::kernels::cuda
