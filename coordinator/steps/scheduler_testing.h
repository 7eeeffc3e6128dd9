// Shared by the tests of the scheduler.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {

// Guesses right, up to and with the `right` first; those behind are wrong.
class CountingGuesses : public GuessSource {
 public:
  int32_t Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) override {
    most_ = most;
    for (int32_t i = 0; i < std::min(most, count_); ++i) {
      guesses->push_back(i < right_ ? sequence.total() + i : 0);
    }
    return 0;
  }
  void Forget(const Sequence& sequence) override { forgotten_.push_back(sequence.request.id); }

  int32_t count_ = 100;  // that it has
  int32_t right_ = 100;
  int32_t most_ = -1;  // that it was last asked for
  std::vector<RequestId> forgotten_;
};

// A stage whose speed is not known: a step costs as much as 16 rows, and its rows.
inline placement::StagePlacement UnknownStage() {
  placement::StagePlacement stage;
  stage.ranks.emplace_back();
  return stage;
}

// A stage whose steps take as long as reading `rows` rows of work, or as their own rows if they are
// more.
inline placement::StagePlacement StageOf(double rows) {
  placement::StagePlacement stage;
  stage.num_layers = 1;
  stage.cost.layer_bytes = 1e6 * rows;
  stage.cost.layer_flops = 1e6;
  stage.speed = {.read_bytes_per_second = 1e9, .flops_per_second = 1e9};
  return stage;
}

// A scheduler with a pipeline that answers when it is told to; the token at position p is p.
class SchedulerTest : public testing::Test {
 protected:
  void Start(const SchedulerOptions& options, int32_t stages, int32_t blocks) {
    scheduler_ = std::make_unique<Scheduler>(options);
    scheduler_->BeginEpoch(stages, blocks);
  }

  // `first_output`: 0: the only output of its request.
  Sequence* Add(int32_t prompt, int32_t max_tokens, int32_t priority = 0, uint64_t owner = 0,
                uint64_t first_output = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = sequences_.size() + 1;
    sequence->request.id = RequestId(sequence->arrival);
    sequence->request.max_tokens = max_tokens;
    sequence->request.priority = priority;
    sequence->request.owner.low = owner;
    sequence->request.first_output = RequestId(first_output);
    sequence->prompt_tokens = prompt;
    sequence->tokens.resize(prompt);
    std::iota(sequence->tokens.begin(), sequence->tokens.end(), 0);
    sequences_.push_back(std::move(sequence));
    scheduler_->Enqueue(sequences_.back().get());
    return sequences_.back().get();
  }

  // Plans until nothing more is wanted; the plans.
  std::vector<v1::StepPlan> Plan() {
    std::vector<v1::StepPlan> plans;
    for (v1::StepPlan plan; scheduler_->Plan(Instant(), &plan); plan = v1::StepPlan()) {
      plans.push_back(plan);
    }
    scheduler_->CheckLedger();
    return plans;
  }

  // The oldest step is done, but for the masks of some. Sequences with all their tokens leave.
  void Finish(const std::vector<const Sequence*>& late = {}) {
    v1::StepResult result;
    result.set_step(scheduler_->steps().oldest().id.value());
    const StepUnderWay& step = scheduler_->steps().oldest();
    for (const StepEntry& entry : step.entries) {
      if (!entry.sample) continue;
      const auto is_it = [&](const Sequence* one) { return one->stay.id == entry.sequence; };
      const bool is_late = std::any_of(late.begin(), late.end(), is_it);
      if (is_late) result.add_late(entry.sequence.value());
      const int32_t most = is_late ? before_late_ : entry.guesses + 1;
      for (int32_t i = 0; i < most; ++i) {
        v1::SampledToken* const sampled = result.add_sampled();
        sampled->set_sequence(entry.sequence.value());
        sampled->set_position(entry.end + i);
        sampled->set_token(entry.end + i);
        if (i < entry.guesses && step.guesses[entry.first_guess + i] != entry.end + i) break;
      }
    }
    Draft(step, &result);
    ASSERT_TRUE(scheduler_->steps().Check(result, 1 << 20).ok());
    std::vector<Scheduler::Sampled> sampled;
    scheduler_->Commit(&result, &sampled);
    for (const Scheduler::Sampled& s : sampled) {
      if (s.index + 1 == s.sequence->request.max_tokens) {
        scheduler_->Remove(s.sequence);
      }
    }
    scheduler_->CheckLedger();
  }

  // What the draft model says of a step, whose tokens are in the result.
  virtual void Draft(const StepUnderWay& step, v1::StepResult* result) {}

  // Outputs of one request.
  std::vector<Sequence*> AddOutputs(int32_t outputs, int32_t prompt, int32_t max_tokens,
                                    uint64_t owner = 0) {
    const uint64_t first = sequences_.size() + 1;
    std::vector<Sequence*> added;
    for (int32_t i = 0; i < outputs; ++i) {
      added.push_back(Add(prompt, max_tokens, /*priority=*/0, owner, first));
    }
    return added;
  }

  static std::vector<int32_t> Counts(const v1::StepPlan& plan) {
    std::vector<int32_t> counts;
    for (const auto& scheduled : plan.scheduled()) counts.push_back(scheduled.count());
    return counts;
  }

  int32_t before_late_ = 0;  // tokens that are drawn of those that are late, of right guesses
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

}  // namespace tutti::coordinator
