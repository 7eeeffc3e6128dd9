// The memory of the emulated GPU: the host cannot touch it except while a kernel or a copy runs, so
// that host code which mistakes one memory for the other ends with a segmentation fault, as it
// would on a machine with a GPU.
//
// All emulated devices of a process share it and the lock that an Access holds.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace tutti::kernels::cuda::emulated {

class DeviceArena {
 public:
  static DeviceArena& The();

  // Zeroed, aligned to 256 bytes. nullptr: no room.
  void* Allocate(int64_t bytes);
  void Free(void* data);
  // Whether the bytes lie in one allocation.
  bool Holds(const void* data, int64_t bytes);
  // Whether any of the arena's addresses is meant.
  bool Covers(const void* data) const;
  int64_t bytes_used();
  int64_t bytes_free();
  int64_t allocations();  // since the process began

  // While one lives its thread may read and write the memory, and no other thread has one.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    std::unique_lock<std::recursive_mutex> lock_;
  };

 private:
  DeviceArena();
  void Protect(bool locked);

  char* const base_;
  std::recursive_mutex mutex_;
  // Guarded by mutex_:
  int64_t end_ = 0;  // of what was ever handed out
  int64_t used_ = 0;
  int64_t allocations_ = 0;
  int accesses_ = 0;                              // of the thread that holds the lock
  std::map<int64_t, int64_t> live_;               // offset, bytes
  std::map<int64_t, std::vector<int64_t>> free_;  // pages, offsets
};

}  // namespace tutti::kernels::cuda::emulated
