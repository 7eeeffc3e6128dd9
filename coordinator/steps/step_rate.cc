#include "coordinator/steps/step_rate.h"

#include <algorithm>
#include <utility>

#include "coordinator/limits.h"

namespace tutti::coordinator {

void StepRate::OnStep(int32_t rows, bool bounded, size_t still_under_way, Instant now) {
  const bool idled = std::exchange(idled_, still_under_way == 0);
  if (bounded || rows < full_step_rows_) {
    group_steps_ = -1;
    return;
  }
  if (idled || group_steps_ < 0) {
    group_began_ = now;
    group_steps_ = 0;
    group_rows_ = 0;
    return;
  }
  ++group_steps_;
  group_rows_ += rows;
  if (group_steps_ < kRateGroupSteps || now <= group_began_) return;
  const double rate = static_cast<double>(group_rows_) / Seconds(now - group_began_);
  best_ = std::max(rate, best_ * kRateKept);
  group_began_ = now;
  group_steps_ = 0;
  group_rows_ = 0;
}

}  // namespace tutti::coordinator
