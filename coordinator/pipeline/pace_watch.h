// Finds the worker of a pipeline that has become slow beside the others.
//
// All workers of a pipeline run the same steps, so a change of load changes all their times alike.
// Times are added up over the same steps for all of them, however far ahead some are. Of every
// worker the shortest time a step is remembered; how many times as long it takes now, divided by
// the same figure of the worker that changed least, is its slowdown. Different devices and uneven
// splits do not show in it. A worker alone has no other to be compared
// with, and a machine that is slow as a whole is none.
//
// A name in the status costs nothing; moving a worker's place does. So that is decided by times
// divided by those predicted for the same steps, wherever the speeds of all are known: a mix of
// prompts and answers does not change such a figure.
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

  // The time that its next step took `worker`, without its waiting for others, and the time that
  // was predicted; 0: it is not known. Every worker does every step, in order.
  void OnStep(size_t worker, double seconds, double predicted, Instant now);

  // 1: as ever; 1 too before anything is known.
  double slowdown(size_t worker) const { return workers_[worker].slowdown; }
  // The slowest worker, if it has been slow for kSlowWindows windows, or very slow for one.
  std::optional<size_t> straggler() const;
  // The slowest worker that has been far from its pace for kSlowPatience: its place should move.
  std::optional<size_t> left_pace() const { return left_pace_; }
  // The ratio of its time to the predicted one, beside its best and beside the others.
  double strain(size_t worker) const { return workers_[worker].strain; }

 private:
  struct Step {
    double seconds = 0;
    double predicted = 0;
  };
  struct Worker {
    std::deque<Step> ahead;  // its steps that others have still to do
    Step sum;                // of this window
    double best = 0;         // seconds a step in its best window; 0: none yet
    double slowdown = 1;
    int slow_windows = 0;    // in a row, up to the last
    bool very_slow = false;  // in the last
    // The same of seconds for each one predicted.
    double best_ratio = 0;
    double strain = 1;
    std::optional<Instant> strained_since;  // the end of the first window
  };

  void CloseWindow(Instant now);
  void CompareWithPrediction(Instant now);

  std::vector<Worker> workers_;
  int steps_ = 0;           // of this window, done by all
  Instant window_begin_{};  // 0: not begun
  std::optional<size_t> left_pace_;
  bool warm_ = false;  // the first window, with its cold caches, is over
};

}  // namespace tutti::coordinator
