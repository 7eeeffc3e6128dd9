#include "door/heap_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/thread.h"

namespace tutti::door {

HeapState LookAtHeap() {
  HeapState state;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    long size = 0, resident = 0, of_files = 0;  // NOLINT(google-runtime-int): of fscanf [pages]
    if (std::fscanf(file, "%ld %ld %ld", &size, &resident, &of_files) == 3) {
      state.resident = int64_t{resident - of_files} * getpagesize();
    }
    std::fclose(file);
  }
  const struct mallinfo2 heap = mallinfo2();
  state.used = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  return state;
}

void TrimHeap() { malloc_trim(0); }

void BoundHeap() {
  mallopt(M_MMAP_THRESHOLD, kHeapMappedBytes);
  mallopt(M_TRIM_THRESHOLD, kHeapTopBytes);
}

HeapTrimmer::HeapTrimmer(std::function<HeapState()> look, std::function<void()> trim,
                         Duration look_every, Duration forgets)
    : look_(std::move(look)),
      trim_(std::move(trim)),
      look_every_(look_every),
      forgets_(forgets),
      kept_(Unused()),
      thread_(StartThread("the return of memory", [this] { Run(); })) {
  BoundHeap();
}

HeapTrimmer::~HeapTrimmer() {
  {
    const MutexLock lock(&mutex_);
    is_over_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void HeapTrimmer::Run() {
  const SystemClock clock;
  Duration pause = look_every_;
  Instant looked = clock.Now();
  while (Sleep(pause)) {
    Instant begin = clock.Now();
    const double forgotten = std::min(1.0, Seconds(begin - looked) / Seconds(forgets_));
    kept_ -= static_cast<int64_t>(static_cast<double>(kept_) * forgotten);
    looked = begin;
    const int64_t unused = Unused();
    pause = std::max<Duration>(look_every_, (clock.Now() - begin) * kHeapLookShare);
    if (unused < kept_ + kTrimAfterBytes) {
      kept_ = std::min(kept_, unused);
      continue;
    }
    begin = clock.Now();
    trim_();
    kept_ = Unused();
    pause = std::max<Duration>(pause, (clock.Now() - begin) * kHeapTrimShare);
  }
}

int64_t HeapTrimmer::Unused() const {
  const HeapState state = look_();
  return state.resident - state.used;
}

bool HeapTrimmer::Sleep(Duration duration) {
  const Instant until = SystemClock().Now() + duration;
  const MutexLock lock(&mutex_);
  while (!is_over_ && SystemClock().Now() < until) changed_.WaitUntil(&mutex_, until);
  return !is_over_;
}

}  // namespace tutti::door
