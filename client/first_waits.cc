#include "client/first_waits.h"

#include "client/limits.h"

namespace tutti::client {

bool FirstWaits::Begin(int64_t bytes) {
  const MutexLock lock(&mutex_);
  if (calls_ >= kFirstWaitsMax || bytes_ + bytes > kFirstWaitBytesMax) return false;
  ++calls_;
  bytes_ += bytes;
  return true;
}

void FirstWaits::End(int64_t bytes) {
  const MutexLock lock(&mutex_);
  --calls_;
  bytes_ -= bytes;
}

}  // namespace tutti::client
