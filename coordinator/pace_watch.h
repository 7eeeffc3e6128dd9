// Finds the worker of a pipeline that has become slow beside the others.
//
// All workers of a pipeline run the same steps, so a change of load changes all their times alike.
// Times are added up over the same steps for all of them, however far ahead some are. Of every
// worker the shortest time a step is remembered; how many times as long it takes now, divided by
// the same figure of the worker that changed least, is its slowdown. Different devices and uneven
// splits do not show in it. A worker alone has no other to be compared with.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace tutti::coordinator {

class PaceWatch {
 public:
  explicit PaceWatch(size_t workers) : workers_(workers) {}

  // The time that its next step took `worker`, without its waiting for others. Every worker does
  // every step, in order.
  void OnStep(size_t worker, double seconds, Instant now);

  // 1: as ever; 1 too before anything is known.
  double slowdown(size_t worker) const { return workers_[worker].slowdown; }
  // The slowest worker, if it has been slow for kSlowWindows windows, or very slow for one.
  std::optional<size_t> straggler() const;

 private:
  struct Worker {
    std::deque<double> ahead;  // seconds of its steps that others have still to do
    double seconds = 0;        // of this window
    double best = 0;           // seconds a step in its best window; 0: none yet
    double slowdown = 1;
    int slow_windows = 0;    // in a row, up to the last
    bool very_slow = false;  // in the last
  };

  void CloseWindow();

  std::vector<Worker> workers_;
  int steps_ = 0;         // of this window, done by all
  Instant window_end_{};  // 0: not begun
  bool warm_ = false;     // the first window, with its cold caches, is over
};

}  // namespace tutti::coordinator
