#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/thread.h"
#include "kernels/limits.h"
#include "program/machine.h"

namespace tutti::kernels::cpu {
namespace {

// Waits until *value differs from `old`: spinning first, asleep after.
void AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(kThreadSpinMicros));
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : counts_(std::make_unique<Count[]>(static_cast<size_t>(std::max(1, threads)))) {
  CHECK(threads >= 1 && threads <= kThreadsMax) << threads << " threads";
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) {
    workers_.push_back(StartThread("the kernels", [this, i] { Serve(i); }));
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

uint64_t ThreadPool::slices_done() const {
  uint64_t done = 0;
  for (int i = 0; i < threads(); ++i) {
    done += __atomic_load_n(&counts_[i].slices, __ATOMIC_RELAXED);
  }
  return done;
}

void ThreadPool::RunErased(Call call, const void* fn) {
  if (workers_.empty()) {
    call(fn, 0);
    return;
  }
  call_ = call;
  fn_ = fn;
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  call(fn, 0);
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;) {
    AwaitChange(running_, left);
  }
}

void ThreadPool::Serve(int thread) {
  uint32_t seen = 0;
  for (;;) {
    AwaitChange(generation_, seen);
    ++seen;  // one generation at a time: Run returns only when all have finished it
    if (stopping_) return;
    call_(fn_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

int AvailableThreads() { return std::clamp(CpuCount(), 1, kThreadsMax); }

}  // namespace tutti::kernels::cpu
