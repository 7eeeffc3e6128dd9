#include "coordinator/pipeline/pace_watch.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

void PaceWatch::OnStep(size_t worker, double seconds, double predicted, Instant now) {
  if (window_begin_ == Instant()) window_begin_ = now;
  workers_[worker].ahead.push_back({seconds, predicted});
  const bool by_all = std::all_of(workers_.begin(), workers_.end(),
                                  [](const Worker& w) { return !w.ahead.empty(); });
  if (!by_all) return;
  for (Worker& each : workers_) {
    each.sum.seconds += each.ahead.front().seconds;
    each.sum.predicted += each.ahead.front().predicted;
    each.ahead.pop_front();
  }
  // A window that too little happened in goes on.
  if (++steps_ < kPaceWindowSteps || now < window_begin_ + kPaceWindow) return;
  CloseWindow(now);
  for (Worker& each : workers_) each.sum = {};
  steps_ = 0;
  window_begin_ = now;
}

void PaceWatch::CloseWindow(Instant now) {
  if (!warm_) {
    warm_ = true;
    return;
  }
  std::vector<double> change;
  for (Worker& worker : workers_) {
    const double cost = worker.sum.seconds / steps_;
    if (worker.best == 0 || cost < worker.best) worker.best = cost;
    change.push_back(worker.best > 0 ? cost / worker.best : 1);
  }
  const double least = *std::min_element(change.begin(), change.end());
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.slowdown = change[i] / least;
    worker.slow_windows = worker.slowdown >= kSlowdown ? worker.slow_windows + 1 : 0;
    worker.very_slow = worker.slowdown >= kGreatSlowdown;
  }
  CompareWithPrediction(now);
}

void PaceWatch::CompareWithPrediction(Instant now) {
  const bool known = std::all_of(workers_.begin(), workers_.end(),
                                 [](const Worker& w) { return w.sum.predicted > 0; });
  const double limit = known ? kLeftPace : kGreatSlowdown;
  std::vector<double> change;
  for (Worker& worker : workers_) {
    const double ratio = worker.sum.seconds / (known ? worker.sum.predicted : steps_);
    if (worker.best_ratio == 0 || ratio < worker.best_ratio) worker.best_ratio = ratio;
    change.push_back(worker.best_ratio > 0 ? ratio / worker.best_ratio : 1);
  }
  const double least = *std::min_element(change.begin(), change.end());
  left_pace_.reset();
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.strain = change[i] / least;
    if (worker.strain < kSlowdown) worker.strained_since.reset();
    if (worker.strain < limit) continue;
    if (!worker.strained_since.has_value()) worker.strained_since = now;
    if (now < *worker.strained_since + kSlowPatience) continue;
    if (!left_pace_.has_value() || worker.strain > workers_[*left_pace_].strain) left_pace_ = i;
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
