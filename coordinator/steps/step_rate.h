// The speed at which a pipeline has been seen to compute prompts: an upper bound, so that a request
// is turned away only when its deadline surely cannot be met.
//
// Full steps (at least a chunk of rows) that follow each other are measured in groups; the best of
// the recent groups counts. Smaller steps say nothing: they take as long for fewer rows. Nor do
// those whose prompts had fewer rows than there were, for the time that they take.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::coordinator {

class StepRate {
 public:
  // REQUIRES: full_step_rows > 0
  explicit StepRate(int32_t full_step_rows) : full_step_rows_(full_step_rows) {}

  // A step of so many rows is done; so many are still under way. Where none was, the pipeline idled
  // until the next. `bounded`: prompts wanted more rows than there was time for.
  void OnStep(int32_t rows, bool bounded, size_t still_under_way, Instant now);
  // Rows per second; 0: not known yet.
  double rows_per_second() const { return best_; }
  void Forget() { *this = StepRate(full_step_rows_); }

 private:
  int32_t full_step_rows_;
  Instant group_began_;
  bool idled_ = true;         // since the last step
  int32_t group_steps_ = -1;  // since group_began_; -1: no group is open
  int64_t group_rows_ = 0;
  double best_ = 0;
};

}  // namespace tutti::coordinator
