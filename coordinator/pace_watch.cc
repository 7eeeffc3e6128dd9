#include "coordinator/pace_watch.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

void PaceWatch::OnStep(size_t worker, double seconds, Instant now) {
  if (window_end_ == Instant()) window_end_ = now + kPaceWindow;
  workers_[worker].ahead.push_back(seconds);
  const bool by_all = std::all_of(workers_.begin(), workers_.end(),
                                  [](const Worker& w) { return !w.ahead.empty(); });
  if (!by_all) return;
  for (Worker& each : workers_) {
    each.seconds += each.ahead.front();
    each.ahead.pop_front();
  }
  // A window that too little happened in goes on.
  if (++steps_ < kPaceWindowSteps || now < window_end_) return;
  CloseWindow();
  window_end_ = now + kPaceWindow;
}

void PaceWatch::CloseWindow() {
  std::vector<double> change;
  for (Worker& worker : workers_) {
    const double cost = worker.seconds / steps_;
    worker.seconds = 0;
    if (!warm_) continue;
    if (worker.best == 0 || cost < worker.best) worker.best = cost;
    change.push_back(worker.best > 0 ? cost / worker.best : 1);
  }
  steps_ = 0;
  if (!warm_) {
    warm_ = true;
    return;
  }
  const double least = *std::min_element(change.begin(), change.end());
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.slowdown = change[i] / least;
    worker.slow_windows = worker.slowdown >= kSlowdown ? worker.slow_windows + 1 : 0;
    worker.very_slow = worker.slowdown >= kGreatSlowdown;
  }
}

std::optional<size_t> PaceWatch::straggler() const {
  std::optional<size_t> slowest;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].slow_windows < kSlowWindows && !workers_[i].very_slow) continue;
    if (!slowest.has_value() || workers_[i].slowdown > workers_[*slowest].slowdown) slowest = i;
  }
  return slowest;
}

}  // namespace tutti::coordinator
