#include "kernels/cuda/emulated/device_arena.h"

#include <sys/mman.h>

#include "base/check.h"

namespace tutti::kernels::cuda::emulated {
namespace {

// Addresses, not memory: the machine gives what is touched. At one time kDeviceBytes are handed out
// at most; freed ones wait for somebody who wants as many, so there are more addresses.
constexpr int64_t kAddressBytes = int64_t{1} << 36;
constexpr int64_t kDeviceBytes = int64_t{4} << 30;
constexpr int64_t kPage = 4096;

int64_t RoundUp(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* Reserve() {
  void* const base =
      mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(base != MAP_FAILED) << "addresses for the emulated GPU";
  return static_cast<char*>(base);
}

}  // namespace

DeviceArena& DeviceArena::The() {
  static DeviceArena* const arena = new DeviceArena();
  return *arena;
}

DeviceArena::DeviceArena() : base_(Reserve()) {}

void* DeviceArena::Allocate(int64_t bytes) {
  std::lock_guard lock(mutex_);
  const int64_t pages = RoundUp(bytes);
  if (bytes > kDeviceBytes - used_) return nullptr;
  std::vector<int64_t>& freed = free_[pages];
  int64_t offset = end_;
  if (!freed.empty()) {
    offset = freed.back();
    freed.pop_back();
  } else if (pages > kAddressBytes - end_) {
    return nullptr;
  } else {
    end_ += pages;
    if (accesses_ > 0) Protect(false);
  }
  live_[offset] = bytes;
  used_ += bytes;
  ++allocations_;
  return base_ + offset;
}

void DeviceArena::Free(void* data) {
  std::lock_guard lock(mutex_);
  const auto at = live_.find(static_cast<char*>(data) - base_);
  CHECK(at != live_.end()) << "memory of the emulated GPU was freed twice, or never allocated";
  const int64_t pages = RoundUp(at->second);
  // The next owner finds zeros.
  CHECK(madvise(data, static_cast<size_t>(pages), MADV_DONTNEED) == 0);
  free_[pages].push_back(at->first);
  used_ -= at->second;
  live_.erase(at);
}

bool DeviceArena::Holds(const void* data, int64_t bytes) {
  if (!Covers(data)) return false;
  std::lock_guard lock(mutex_);
  const int64_t offset = static_cast<const char*>(data) - base_;
  auto at = live_.upper_bound(offset);
  if (at == live_.begin()) return false;
  --at;
  return offset + bytes <= at->first + at->second;
}

bool DeviceArena::Covers(const void* data) const {
  return data >= base_ && data < base_ + kAddressBytes;
}

int64_t DeviceArena::bytes_used() {
  std::lock_guard lock(mutex_);
  return used_;
}

int64_t DeviceArena::bytes_free() {
  std::lock_guard lock(mutex_);
  return kDeviceBytes - used_;
}

int64_t DeviceArena::allocations() {
  std::lock_guard lock(mutex_);
  return allocations_;
}

void DeviceArena::Protect(bool locked) {
  if (end_ == 0) return;
  CHECK(mprotect(base_, end_, locked ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
}

DeviceArena::Access::Access() : lock_(The().mutex_) {
  if (The().accesses_++ == 0) The().Protect(false);
}

DeviceArena::Access::~Access() {
  if (--The().accesses_ == 0) The().Protect(true);
}

}  // namespace tutti::kernels::cuda::emulated
