// The bound of one step's time, while it is decided which prompts have rows in it.
//
// Whoever generates waits for all rows of a step, and of the steps under way before it. So, while
// anybody does, prompts have as many rows as --itl-target leaves time for, beside what is in the
// step already; and where nobody does, as many as leave the first prompt that ends its token.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "coordinator/steps/step_times.h"

namespace tutti::coordinator {

class StepTimeBound {
 public:
  // Steps that somebody waits for take so long at most; zero: any time.
  explicit StepTimeBound(Duration itl_target) : itl_target_(itl_target) {}

  // Null: no time is known, and nothing is bounded.  REQUIRES: they outlive this
  void TimeBy(const StepTimes* times) { times_ = times; }
  const StepTimes* times() const { return times_; }

  // Another step, of which nothing is decided: no bound until Begin.
  void Reset();
  // Rows of prompts are next. Nothing where steps may take any time, or none is known.
  bool IsWanted() const { return itl_target_ > Duration() && times_ != nullptr; }
  void Begin() { begun_ = true; }
  // What is in the step: `count` rows of a sequence that follow its first `first` tokens.
  // `sample`: the last of them becomes a token.
  void Add(int32_t first, int32_t count, bool sample) { load_.Add(first, count, sample ? 1 : 0); }
  // Somebody generates. `empty`: no row is in the step.
  void BindForGenerating(bool empty);
  // The step has rows of a prompt. `ends`: its first token waits for what is added from now on.
  void AddPrompt(int32_t first, int32_t count, bool ends);

  // As many of `most` rows that follow a sequence's first tokens, `behind` of which it wants, as
  // the step has time for.
  int32_t RowsInTime(int32_t first, int32_t behind, int32_t most) const;

 private:
  void Bind(double stretch, bool empty);

  const Duration itl_target_;
  const StepTimes* times_ = nullptr;
  bool begun_ = false;
  LoadSum load_;  // of the rows
  std::optional<double> seconds_max_;
  int32_t prompt_rows_ = 0;
  int32_t prompt_rows_min_ = 0;  // whatever the time
};

}  // namespace tutti::coordinator
