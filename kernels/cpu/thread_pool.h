// Threads that run one function together, each on its own share of the output.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tutti::kernels::cpu {

// A fixed set of threads, of which the caller of Run is one. Waiting threads spin for some tens of
// microseconds, the time between two operators of a step, then sleep: two workers sharing two cores
// do not burn each other's time.
class ThreadPool {
 public:
  // REQUIRES: 1 <= threads <= kThreadsMax
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(thread) for every thread in [0, threads()) and returns when all are done. Their writes
  // are visible to the caller afterwards.  Thread: one at a time, never from within fn.
  template <class Fn>
  void Run(const Fn& fn) {
    RunErased([](const void* f, int thread) { (*static_cast<const Fn*>(f))(thread); }, &fn);
  }

  // Divides [0, count) evenly and calls fn(thread, begin, end) where the range is not empty. With
  // `serial` the caller does all of it: for work too small to be worth waking other threads.
  template <class Fn>
  void Split(int64_t count, bool serial, const Fn& fn) {
    if (serial || workers_.empty() || count <= 1) {
      if (count > 0) fn(0, int64_t{0}, count);
      return;
    }
    Run([&](int thread) {
      const int64_t begin = count * thread / threads();
      const int64_t end = count * (thread + 1) / threads();
      if (begin < end) fn(thread, begin, end);
    });
  }

  // Where thread `thread` counts the slices of its share (slice_count.h).  Thread: that one.
  uint64_t* slices(int thread) { return &counts_[thread].slices; }
  // Of all threads since the pool was made.  Thread: any.
  uint64_t slices_done() const;

 private:
  struct alignas(64) Count {
    uint64_t slices = 0;
  };
  using Call = void (*)(const void* fn, int thread);
  void RunErased(Call call, const void* fn);
  void Serve(int thread);

  // Written before generation_ changes, read after.
  Call call_ = nullptr;
  const void* fn_ = nullptr;
  bool stopping_ = false;

  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> running_{0};  // workers that have not finished this generation
  const std::unique_ptr<Count[]> counts_;         // [threads]
  std::vector<std::thread> workers_;
};

// Threads that this process may run at once: its CPU affinity.
int AvailableThreads();

}  // namespace tutti::kernels::cpu
