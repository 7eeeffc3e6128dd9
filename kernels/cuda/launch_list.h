// Launches in order, kept as one run of bytes: two lists do the same exactly when their bytes are
// equal, because an argument has no gaps (gpu.h). The first of a list never begins early.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

class LaunchList {
 public:
  LaunchList() = default;
  explicit LaunchList(std::span<const KernelLaunch> launches);

  void Append(const KernelLaunch& launch);
  void Clear();
  int64_t size() const { return static_cast<int64_t>(begin_.size()); }
  // Kernels, grids, arguments: everything. Valid until the list changes.
  std::string_view bytes() const { return bytes_; }
  // Valid until the list changes.
  std::span<const KernelLaunch> launches();

 private:
  std::string bytes_;
  std::vector<size_t> begin_;  // of each launch
  std::vector<KernelLaunch> launches_;
};

}  // namespace tutti::kernels::cuda
