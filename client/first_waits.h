// The calls of a client that wait for a service which is not there: as many as it may hold.
//
// Thread: any.
#pragma once

#include <cstdint>

#include "base/mutex.h"

namespace tutti::client {

class FirstWaits {
 public:
  // A call begins to wait with a request of so many bytes. False: it must not, as kFirstWaitsMax
  // calls wait, or their requests have kFirstWaitBytesMax.
  bool Begin(int64_t bytes);
  // REQUIRES: Begin(bytes) was true, and this is its only end.
  void End(int64_t bytes);

 private:
  Mutex mutex_;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::client
