#include "kernels/cuda/emulated/device_arena.h"

#include <sys/mman.h>

#include "base/check.h"

namespace tutti::kernels::cuda::emulated {
namespace {

// Addresses, not memory: the machine gives pages as they are touched. At one time kDeviceBytes are
// handed out at most; freed addresses wait for an allocation of the same size, so there are more
// addresses.
constexpr int64_t kAddressBytes = int64_t{1} << 36;
constexpr int64_t kRegionBytes = kAddressBytes / 2;
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

DeviceArena::DeviceArena() : base_(Reserve()) {
  regions_[1].begin = regions_[1].end = kRegionBytes;
}

void* DeviceArena::Allocate(int64_t bytes, Use use) {
  MutexLock lock(&mutex_);
  const int64_t pages = RoundUp(bytes);
  if (bytes > kDeviceBytes - used_) return nullptr;
  Region& region = regions_[static_cast<int>(use)];
  std::vector<int64_t>& freed = region.free[pages];
  int64_t offset = region.end;
  if (!freed.empty()) {
    offset = freed.back();
    freed.pop_back();
  } else if (pages > region.begin + kRegionBytes - region.end) {
    return nullptr;
  } else {
    region.end += pages;
  }
  live_[offset] = bytes;
  used_ += bytes;
  ++allocations_;
  return base_ + offset;
}

void DeviceArena::Free(void* data) {
  MutexLock lock(&mutex_);
  const auto at = live_.find(static_cast<char*>(data) - base_);
  CHECK(at != live_.end()) << "memory of the emulated GPU was freed twice, or never allocated";
  const int64_t pages = RoundUp(at->second);
  // The next owner finds zeros.
  CHECK(madvise(data, static_cast<size_t>(pages), MADV_DONTNEED) == 0);
  regions_[at->first < kRegionBytes ? 0 : 1].free[pages].push_back(at->first);
  used_ -= at->second;
  live_.erase(at);
}

bool DeviceArena::Holds(const void* data, int64_t bytes) {
  if (!Covers(data)) return false;
  MutexLock lock(&mutex_);
  const int64_t offset = static_cast<const char*>(data) - base_;
  auto at = live_.upper_bound(offset);
  if (at == live_.begin()) return false;
  --at;
  return offset + bytes <= at->first + at->second;
}

bool DeviceArena::Covers(const void* data) const {
  return data >= base_ && data < base_ + kAddressBytes;
}

bool DeviceArena::IsConstant(const void* data) const {
  return data >= base_ + kRegionBytes && Covers(data);
}

int64_t DeviceArena::bytes_used() {
  MutexLock lock(&mutex_);
  return used_;
}

int64_t DeviceArena::bytes_free() {
  MutexLock lock(&mutex_);
  return kDeviceBytes - used_;
}

int64_t DeviceArena::allocations() {
  MutexLock lock(&mutex_);
  return allocations_;
}

void DeviceArena::Protect(const Region& region, int protection) {
  if (region.end == region.begin) return;
  CHECK(mprotect(base_ + region.begin, region.end - region.begin, protection) == 0);
}
void DeviceArena::Protect(int protection) {
  for (const Region& region : regions_) Protect(region, protection);
}

DeviceArena::Access::Access() {
  The().mutex_.Lock();
  The().Protect(PROT_READ | PROT_WRITE);
}

DeviceArena::Access::~Access() {
  The().Protect(PROT_NONE);
  The().mutex_.Unlock();
}
void DeviceArena::Access::BeforeWait() {
  The().Protect(The().regions_[0], PROT_NONE);
  The().Protect(The().regions_[1], PROT_READ);
}
void DeviceArena::Access::AfterWait() {
  The().Protect(The().regions_[0], PROT_READ | PROT_WRITE);
  The().Protect(The().regions_[1], PROT_READ);
}

}  // namespace tutti::kernels::cuda::emulated
