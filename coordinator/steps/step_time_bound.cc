#include "coordinator/steps/step_time_bound.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

void StepTimeBound::Reset() {
  begun_ = false;
  load_ = {};
  seconds_max_.reset();
  prompt_rows_ = prompt_rows_min_ = 0;
}

void StepTimeBound::BindForGenerating(bool empty) {
  // Prompts get on, however long a step takes without them: as many rows as they have by number,
  // by time.
  constexpr double kStretch = double{kRowsPerPromptRow} / (kRowsPerPromptRow - 1);
  Bind(kStretch, empty);
  prompt_rows_min_ = kPromptRowsMin;
}

void StepTimeBound::AddPrompt(int32_t first, int32_t count, bool ends) {
  if (!begun_) return;
  load_.Add(first, count, ends ? 1 : 0);
  prompt_rows_ += count;
  if (ends && !seconds_max_.has_value()) Bind(/*stretch=*/1, /*empty=*/false);
}

// The time of what is in the step already. Nothing where no time is known.
void StepTimeBound::Bind(double stretch, bool empty) {
  double seconds = 0;
  if (!empty) {
    const std::optional<double> predicted = times_->Predict(load_.load());
    if (!predicted.has_value()) return;
    seconds = *predicted;
  }
  seconds_max_ = std::max(Seconds(itl_target_), stretch * seconds);
}

int32_t StepTimeBound::RowsInTime(int32_t first, int32_t behind, int32_t most) const {
  if (!seconds_max_.has_value()) return most;
  const auto fits = [&](int32_t count) {
    LoadSum load = load_;
    load.Add(first, count, count == behind ? 1 : 0);
    const std::optional<double> seconds = times_->Predict(load.load());
    return !seconds.has_value() || *seconds <= *seconds_max_;
  };
  int32_t low = std::clamp(prompt_rows_min_ - prompt_rows_, 0, most);
  if (low == most || fits(most)) return most;
  for (int32_t high = most; high - low > 1;) {
    const int32_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace tutti::coordinator
