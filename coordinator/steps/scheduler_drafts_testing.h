// Shared by the tests of what the scheduler asks the draft model for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {

// The draft model says what comes, up to and with the first `right_` tokens, and then 0.
class SchedulerDraftsTest : public SchedulerTest {
 protected:
  void Start(SchedulerOptions options, int32_t stages = 1, int32_t blocks = 100) {
    options.draft = true;
    options.drafts_max = drafts_max_;
    scheduler_ = std::make_unique<Scheduler>(options);
    scheduler_->GuessBy(&text_);
    if (times_.has_value()) scheduler_->TimeBy(&*times_);
    scheduler_->BeginEpoch(stages, blocks);
    text_.count_ = 0;
  }
  v1::StepPlan PlanOne() {
    v1::StepPlan plan;
    EXPECT_TRUE(scheduler_->Plan(Instant(), &plan));
    scheduler_->CheckLedger();
    return plan;
  }
  // What a step is asked for; -1: nothing.
  static int32_t DraftsOf(const v1::StepPlan& plan, int i = 0) {
    return plan.scheduled(i).has_drafts() ? plan.scheduled(i).drafts() : -1;
  }
  static std::vector<int32_t> GuessesOf(const v1::StepPlan& plan, int i = 0) {
    return {plan.scheduled(i).guesses().begin(), plan.scheduled(i).guesses().end()};
  }
  void Draft(const StepUnderWay& step, v1::StepResult* result) override {
    for (const StepEntry& entry : step.entries) {
      const auto tokens = std::count_if(
          result->sampled().begin(), result->sampled().end(),
          [&](const auto& token) { return token.sequence() == entry.sequence.value(); });
      if (entry.drafts == 0 || tokens == 0) continue;
      v1::DraftedTokens* const drafted = result->add_drafted();
      drafted->set_sequence(entry.sequence.value());
      drafted->set_position(entry.end + static_cast<int32_t>(tokens));
      for (int32_t i = 0; i < std::min(entry.drafts, said_); ++i) {
        drafted->add_tokens(i < right_ ? drafted->position() + i : 0);
      }
    }
  }
  Sequence* AddRunning(int32_t prompt, int32_t max_tokens) {
    Sequence* const sequence = Add(prompt, max_tokens);
    PlanOne();
    Finish();
    return sequence;
  }

  int32_t drafts_max_ = kGuessesMax;
  int32_t said_ = 100;
  int32_t right_ = 100;
  CountingGuesses text_;
  std::optional<StepTimes> times_;
};

}  // namespace tutti::coordinator
