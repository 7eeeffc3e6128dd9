// The memory of the emulated GPU: the host cannot touch it except while a kernel or a copy runs, so
// that host code which mistakes one memory for the other ends with a segmentation fault, as it
// would on a machine with a GPU.
//
// All emulated devices of a process share it and the lock that an Access holds.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace tutti::kernels::cuda::emulated {

class DeviceArena {
 public:
  static DeviceArena& The();

  // kConstant: kernels that begin early only read it (Runtime::AllocateConstant).
  enum class Use { kAny, kConstant };
  // Zeroed, aligned to 256 bytes. nullptr: no room.
  void* Allocate(int64_t bytes, Use use = Use::kAny);
  void Free(void* data);
  // Whether the bytes lie in one allocation.
  bool Holds(const void* data, int64_t bytes);
  // Whether any of the arena's addresses is meant, and whether one of Use::kConstant is.
  bool Covers(const void* data) const;
  bool IsConstant(const void* data) const;
  int64_t bytes_used();
  int64_t bytes_free();
  int64_t allocations();  // since the process began

  // While one lives its thread may read and write the memory, and no other thread has one. It holds
  // the arena's lock: its thread calls nothing but Covers and IsConstant meanwhile.
  class Access {
   public:
    // The analysis cannot tell that the lock lives as long as this object.
    Access() ABSL_NO_THREAD_SAFETY_ANALYSIS;
    ~Access() ABSL_NO_THREAD_SAFETY_ANALYSIS;
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

    // For a kernel that begins early: the memory it may touch before it has waited for others, and
    // after.
    void BeforeWait() ABSL_NO_THREAD_SAFETY_ANALYSIS;
    void AfterWait() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  };

 private:
  // Addresses of one use.
  struct Region {
    int64_t begin = 0;                             // offset
    int64_t end = 0;                               // of all that was ever handed out
    std::map<int64_t, std::vector<int64_t>> free;  // pages, offsets
  };

  DeviceArena();
  void Protect(const Region& region, int protection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Protect(int protection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // all

  char* const base_;
  Mutex mutex_;
  Region regions_[2] ABSL_GUARDED_BY(mutex_);  // by Use
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, int64_t> live_ ABSL_GUARDED_BY(mutex_);  // offset, bytes
};

}  // namespace tutti::kernels::cuda::emulated
