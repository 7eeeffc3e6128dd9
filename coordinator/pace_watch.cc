#include "coordinator/pace_watch.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

void PaceWatch::OnStep(size_t worker, double seconds, Instant now) {
  if (window_end_ == Instant()) window_end_ = now + kPaceWindow;
  workers_[worker].seconds += seconds;
  ++workers_[worker].steps;
  if (now < window_end_) return;
  // A window that too little happened in goes on.
  const bool full = std::all_of(workers_.begin(), workers_.end(),
                                [](const Worker& w) { return w.steps >= kPaceWindowSteps; });
  if (!full) return;
  CloseWindow();
  window_end_ = now + kPaceWindow;
}

void PaceWatch::CloseWindow() {
  std::vector<double> change;
  for (Worker& worker : workers_) {
    const double cost = worker.seconds / worker.steps;
    worker.seconds = 0;
    worker.steps = 0;
    if (!warm_) continue;
    if (worker.best == 0 || cost < worker.best) worker.best = cost;
    change.push_back(worker.best > 0 ? cost / worker.best : 1);
  }
  if (!warm_) {
    warm_ = true;
    return;
  }
  const double least = *std::min_element(change.begin(), change.end());
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].slowdown = change[i] / least;
    const bool slow = workers_[i].slowdown >= kSlowdown;
    workers_[i].slow_windows = slow ? workers_[i].slow_windows + 1 : 0;
  }
}

std::optional<size_t> PaceWatch::straggler() const {
  std::optional<size_t> slowest;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].slow_windows < kSlowWindows) continue;
    if (!slowest.has_value() || workers_[i].slowdown > workers_[*slowest].slowdown) slowest = i;
  }
  return slowest;
}

}  // namespace tutti::coordinator
