#include "kernels/cuda/launch_list.h"

#include <cstring>
#include <type_traits>

namespace tutti::kernels::cuda {

// The bytes of a launch are the struct itself, its pointer to the argument left out, and then the
// argument, up to whole 8 bytes.
static_assert(std::has_unique_object_representations_v<KernelLaunch>);
static_assert(sizeof(KernelLaunch) % 8 == 0);

LaunchList::LaunchList(std::span<const KernelLaunch> launches) {
  for (const KernelLaunch& launch : launches) Append(launch);
}

void LaunchList::Append(const KernelLaunch& launch) {
  const size_t begin = bytes_.size();
  const auto argument_bytes = static_cast<size_t>(launch.argument_bytes);
  begin_.push_back(begin);
  bytes_.resize(begin + sizeof(KernelLaunch) + (argument_bytes + 7) / 8 * 8);
  KernelLaunch kept = launch;
  kept.argument = nullptr;
  // Before a list may stand a copy, or work of others, which is waited for.
  if (begin_.size() == 1) kept.early = 0;
  std::memcpy(&bytes_[begin], &kept, sizeof(kept));
  if (argument_bytes == 0) return;
  std::memcpy(&bytes_[begin + sizeof(kept)], launch.argument, argument_bytes);
}

void LaunchList::Clear() {
  bytes_.clear();
  begin_.clear();
}

std::span<const KernelLaunch> LaunchList::launches() {
  launches_.resize(begin_.size());
  for (size_t i = 0; i < begin_.size(); ++i) {
    std::memcpy(&launches_[i], &bytes_[begin_[i]], sizeof(KernelLaunch));
    launches_[i].argument = &bytes_[begin_[i]] + sizeof(KernelLaunch);
  }
  return launches_;
}

}  // namespace tutti::kernels::cuda
