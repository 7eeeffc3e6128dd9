// A device behind a list: launches are recorded, and started together when something asks for order
// with them (a copy, memory that is freed, work of others on the stream), when the list is
// full, or at the end of a step. So a step's kernels become a short list, with which the device
// begins, and few long ones, of which those that come again are started as graphs (graph_cache.h).
//
// Used as a Runtime, it keeps the order of calls.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "kernels/cuda/graph_cache.h"
#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

class LaunchQueue final : public Runtime {
 public:
  // early: kernels that may begin early do; false: each begins when the one before has ended.
  LaunchQueue(std::unique_ptr<Runtime> device, const GraphCache::Limits& limits, bool early = true)
      : device_(std::move(device)), graphs_(device_.get(), limits), early_(early) {}

  void Start(const KernelLaunch& launch) override;
  void Flush();
  // Flushes; arrays that the host sent during the step are not expected again.
  void EndStep();
  int64_t steps() const { return steps_; }  // that have ended
  LaunchCounts counts() const { return graphs_.counts(); }

  // As Upload of one piece, but before the recorded launches.
  // REQUIRES: no recorded launch uses the target.
  void UploadAhead(void* to, const void* from, int64_t bytes);

  // No recorded launch knows memory that is new.
  absl::StatusOr<void*> Allocate(int64_t bytes) override { return device_->Allocate(bytes); }
  absl::StatusOr<void*> AllocateConstant(int64_t bytes) override {
    return device_->AllocateConstant(bytes);
  }
  void Free(void* data) override;
  int64_t FreeBytes() override { return device_->FreeBytes(); }
  void Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
              int64_t rows) override;
  void Download(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
                int64_t rows) override;
  void Zero(void* data, int64_t bytes) override;
  bool Idle() override;
  uint64_t Mark() override;
  bool Passed(uint64_t mark) override { return device_->Passed(mark); }
  bool Holds(const void* data, int64_t bytes) const override { return device_->Holds(data, bytes); }
  // Everything recorded is on it.
  Stream stream() override;
  absl::StatusOr<std::unique_ptr<Graph>> MakeGraph(
      std::span<const KernelLaunch> launches) override {
    return device_->MakeGraph(launches);
  }

 private:
  const std::unique_ptr<Runtime> device_;
  GraphCache graphs_;
  const bool early_;
  LaunchList recorded_;
  // Of the list that is recorded, at most. Short unless the one before was started because it was
  // full: behind anything else the device may have nothing to do until this one begins, and equal
  // steps are cut at the same places whatever was before them.
  int64_t list_launches_ = kFirstListLaunches;
  int64_t steps_ = 0;
};

}  // namespace tutti::kernels::cuda
