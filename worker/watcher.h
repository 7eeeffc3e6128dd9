// A thread of its own that beats while the control link is joined, whatever the executor does.
//
// It shares the link with the executor, which sets and takes it away; a frame that is on its way
// out meanwhile keeps the old link for as long. Nothing here is on the way of a step.
#pragma once

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "transport/link.h"
#include "worker/executor_watch.h"
#include "worker/gpu/gpu_monitor.h"

namespace tutti::worker {

class Watcher {
 public:
  // REQUIRES: all outlive this. `gpu`: beats say what it knows; null: there is none
  Watcher(ExecutorWatch* watch, const Clock* clock, const GpuMonitor* gpu = nullptr)
      : watch_(watch), clock_(clock), gpu_(gpu) {}
  ~Watcher();  // stops

  // Thread: the owner's.
  void Start();
  void Stop();

  // Beats at once and then every `interval`, until the link is taken away. An interval asked for by
  // a coordinator is the longest that it likes to wait.  Thread: any.
  void SetLink(std::shared_ptr<transport::Link> link, Duration interval);
  void TakeLink();

 private:
  void Run();
  // Waits until a beat is due. Null: the end.
  std::shared_ptr<transport::Link> AwaitBeat();
  void Beat(transport::Link* link);

  ExecutorWatch* const watch_;  // the thread's, once it runs
  const Clock* const clock_;
  const GpuMonitor* const gpu_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<transport::Link> link_ ABSL_GUARDED_BY(mutex_);
  Duration interval_ ABSL_GUARDED_BY(mutex_){};
  Instant next_beat_ ABSL_GUARDED_BY(mutex_){};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Resident memory of this process; 0 when the system does not say.
int64_t ResidentBytes();

}  // namespace tutti::worker
