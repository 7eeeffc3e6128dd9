#include "coordinator/service/heap_trimmer.h"

#include <utility>

namespace tutti::coordinator {

HeapTrimmer::HeapTrimmer(std::function<void()> trim)
    : trim_(std::move(trim)), thread_([this] { Run(); }) {}

HeapTrimmer::~HeapTrimmer() {
  {
    const MutexLock lock(&mutex_);
    is_over_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void HeapTrimmer::Wake() {
  {
    const MutexLock lock(&mutex_);
    is_due_ = true;
  }
  changed_.NotifyOne();
}

void HeapTrimmer::Run() {
  while (true) {
    {
      const MutexLock lock(&mutex_);
      while (!is_due_ && !is_over_) changed_.Wait(&mutex_);
      if (is_over_) return;
      is_due_ = false;
    }
    trim_();
  }
}

}  // namespace tutti::coordinator
