// The prompts that come first in a step, and how long they may make it for those that wait for a
// token of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

// 1 s for the bytes that a step reads, 1/100 s for each row: a row more is free up to 100.
placement::StagePlacement Stage(double read_seconds, double row_seconds) {
  placement::StagePlacement stage;
  stage.num_layers = 1;
  stage.cost.layer_bytes = 1e9 * read_seconds;
  stage.cost.layer_flops = 1e9 * row_seconds;
  stage.speed = {.read_bytes_per_second = 1e9, .flops_per_second = 1e9};
  return stage;
}

class SchedulerTargetTest : public SchedulerTest {
 protected:
  // A step takes 10 ms for each row, and 50 ms at least.
  void Start(const SchedulerOptions& options, int32_t stages = 1) {
    sequences_.clear();
    SchedulerTest::Start(options, stages, 100'000);
    times_ = StepTimes(std::vector<placement::StagePlacement>(stages, Stage(0.05, 0.01)));
    scheduler_->TimeBy(&times_);
  }
  void Step() {
    Plan();
    if (scheduler_->steps().size() > 0) Finish();
  }
  // The rows of the next plan; one step is under way then.
  std::vector<int32_t> NextCounts() {
    v1::StepPlan plan;
    return scheduler_->Plan(Instant(), &plan) ? Counts(plan) : std::vector<int32_t>{};
  }
  // The numbers of the sequences in the order in which they got their first token, up to `most`
  // steps.
  std::vector<size_t> FirstTokens(int32_t most) {
    std::vector<size_t> order;
    for (int32_t step = 0; step < most; ++step) {
      Step();
      for (size_t i = 0; i < sequences_.size(); ++i) {
        const bool told = std::find(order.begin(), order.end(), i) != order.end();
        if (!told && sequences_[i]->output_tokens() > 0) order.push_back(i);
      }
    }
    return order;
  }

  StepTimes times_;
};

// ---- who is first

TEST_F(SchedulerTargetTest, FirstComeFirstServed) {
  Start({.max_batch_tokens = 64});
  for (int i = 0; i < 4; ++i) Add(100, 50);
  EXPECT_THAT(NextCounts(), ElementsAre(64));
  EXPECT_THAT(NextCounts(), ElementsAre(36, 28)) << "and the rest is the next one's";
  Finish();
  Finish();
  EXPECT_EQ(sequences_[0]->output_tokens(), 1);
  EXPECT_THAT(NextCounts(), ElementsAre(1, 63));
  Finish();
  EXPECT_THAT(NextCounts(), ElementsAre(1, 9, 54));
  EXPECT_THAT(FirstTokens(20), ElementsAre(0, 1, 2, 3));
}

TEST_F(SchedulerTargetTest, AChunkBoundsWhatIsGivenToOne) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 16});
  for (int i = 0; i < 4; ++i) Add(100, 50);
  EXPECT_THAT(NextCounts(), ElementsAre(16, 16, 16, 16));
}

// A single prompt keeps all stages at work; where there are many, each has steps of its own.
TEST_F(SchedulerTargetTest, StagesDivideWhatIsToBeComputed) {
  Start({.max_batch_tokens = 512}, /*stages=*/2);
  Add(700, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(350));
  EXPECT_THAT(NextCounts(), ElementsAre(175));
  Start({.max_batch_tokens = 512}, /*stages=*/2);
  for (int i = 0; i < 8; ++i) Add(512, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(512));
  EXPECT_THAT(NextCounts(), ElementsAre(512));
}

// It has a part of the rows, whether it has come in or waits; the long one is not held up by those
// that are not much shorter.
TEST_F(SchedulerTargetTest, AShortPromptGoesBesideALongOne) {
  Start({.max_batch_tokens = 64});
  Add(10'000, 5);
  Step();
  Add(9'000, 5);
  Add(30, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(64)) << "the next in line is as long";
  Start({.max_batch_tokens = 64});
  Add(10'000, 5);
  Step();
  Add(30, 5);
  Add(9'000, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(16, 48));
  Finish();
  EXPECT_THAT(NextCounts(), ElementsAre(14, 50));
  Finish();
  Finish();
  EXPECT_EQ(sequences_[1]->output_tokens(), 1);
  EXPECT_EQ(sequences_[2]->stay.planned, 0);
}

TEST_F(SchedulerTargetTest, HigherClassesComeFirst) {
  Start({.max_batch_tokens = 64});
  Add(1000, 5, /*priority=*/1);
  Step();
  Sequence* const higher = Add(900, 5, /*priority=*/0);
  EXPECT_THAT(NextCounts(), ElementsAre(64));
  EXPECT_EQ(higher->stay.planned, 64) << "not after the one that has begun";
  Add(10, 5, /*priority=*/1);
  Finish();
  EXPECT_THAT(NextCounts(), ElementsAre(64)) << "the short one is of a lower class";
}

// A prompt of another tenant waits for those that have begun, not for all that came before it.
TEST_F(SchedulerTargetTest, TenantsTakeTurns) {
  Start({.max_batch_tokens = 64});
  for (int i = 0; i < 20; ++i) Add(128, 5, 0, /*tenant=*/1);
  Step();
  Add(128, 5, 0, /*tenant=*/2);
  const std::vector<size_t> order = FirstTokens(60);
  EXPECT_LE(std::find(order.begin(), order.end(), 20u) - order.begin(), 2);
  EXPECT_EQ(order.size(), 21u);
}

// ---- how long a step may be

TEST_F(SchedulerTargetTest, PromptsHaveTheTimeThatIsLeft) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(200)});
  Add(500, 1000);
  EXPECT_THAT(NextCounts(), ElementsAre(500)) << "nobody waits for a token";
  Finish();
  Add(500, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(1, 19)) << "20 rows take 200 ms";
  Finish();
  EXPECT_EQ(scheduler_->bounded_steps(), 1u);
  scheduler_->Remove(sequences_[0].get());
  EXPECT_THAT(NextCounts(), ElementsAre(481)) << "nobody waits again";
}

TEST_F(SchedulerTargetTest, WithoutATargetPromptsHaveAllRows) {
  Start({.max_batch_tokens = 512});
  Add(5, 1000);
  Step();
  Add(2000, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(1, 511));
  EXPECT_EQ(scheduler_->bounded_steps(), 0u);
}

// It waits for a place, whatever time there is.
TEST_F(SchedulerTargetTest, WhoCouldNotComeInAnywayMakesNoStepBounded) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(40), .max_sequences = 2});
  Add(5, 1000);
  Add(5, 1000);
  Step();
  Step();
  // The second's rows waited for the first's token.
  const uint64_t before = scheduler_->bounded_steps();
  Add(300, 5);
  for (int step = 0; step < 20; ++step) Step();
  EXPECT_EQ(scheduler_->bounded_steps(), before);
  scheduler_->Remove(sequences_[0].get());
  for (int step = 0; step < 3; ++step) Step();
  EXPECT_EQ(scheduler_->bounded_steps(), before + 3);
}

// Until its times are known, and for good where nobody tells them.
TEST_F(SchedulerTargetTest, WithoutTimesNothingIsBounded) {
  for (const bool told : {false, true}) {
    Start({.max_batch_tokens = 512, .itl_target = milliseconds(200)});
    placement::StagePlacement unknown = Stage(0.05, 0.01);
    unknown.speed = {};
    times_ = StepTimes({unknown});
    if (!told) scheduler_->TimeBy(nullptr);
    Add(5, 1000);
    Step();
    Add(2000, 5);
    EXPECT_THAT(NextCounts(), ElementsAre(1, 511));
  }
}

// On several stages a token goes through the steps of all of them.
TEST_F(SchedulerTargetTest, StepsUnderWayBeforeATokenAreBoundedToo) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(400)}, /*stages=*/2);
  Add(5, 1000);
  Step();
  Add(2000, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(1, 19)) << "20 rows take 200 ms on each";
  EXPECT_THAT(NextCounts(), ElementsAre(20)) << "its next token waits for this one";
}

// The first token of a prompt that ends does not wait for the next prompt's rows.
TEST_F(SchedulerTargetTest, AFirstTokenDoesNotWaitForOthers) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(200)});
  Add(100, 1000);
  Add(500, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(100)) << "it takes longer than that already";
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(200)});
  Add(5, 1000);
  Add(500, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(5, 15));
}

// So many generate that a step takes longer without any prompt.
TEST_F(SchedulerTargetTest, PromptsGetOnWhateverAStepTakes) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(200)});
  for (int i = 0; i < 90; ++i) Add(1, 10'000);
  for (int step = 0; step < 40; ++step) Step();
  Sequence* const prompt = Add(300, 5);
  v1::StepPlan plan;
  ASSERT_TRUE(scheduler_->Plan(Instant(), &plan));
  EXPECT_EQ(plan.total_rows(), 120) << "a quarter of the time is theirs";
  EXPECT_EQ(prompt->stay.planned, 30);
  // A slow machine: a step of one row takes as long as the target.
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(20)});
  Add(1, 10'000);
  Step();
  Add(300, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(1, kPromptRowsMin));
}

// The time that was learnt counts, not what was predicted.
TEST_F(SchedulerTargetTest, LearnsWhatStepsTake) {
  Start({.max_batch_tokens = 512, .itl_target = milliseconds(400)});
  Add(5, 1000);
  Step();
  Add(2000, 5);
  EXPECT_THAT(NextCounts(), ElementsAre(1, 39));
  Finish();
  for (int step = 0; step < 5; ++step) {
    times_.OnStep(0, {.rows = 16, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.32);
    times_.OnStep(0, {.rows = 40, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.8);
  }
  EXPECT_THAT(NextCounts(), ElementsAre(1, 19)) << "they take twice as long";
}

// Prompts of any length, classes, tenants, targets: all end, and no step that somebody waits for is
// longer than it may be.
TEST_F(SchedulerTargetTest, EverythingEndsInTime) {
  uint64_t bounded = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Duration target = milliseconds(random.Between(1, 1000));
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    const auto batch = static_cast<int32_t>(random.Between(16, 200));
    Start({.max_batch_tokens = batch,
           .chunk_tokens = static_cast<int32_t>(random.Chance(0.5) ? 0 : random.Between(1, batch)),
           .itl_target = target},
          stages);
    for (int steps = 0; steps < 100 || scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 20'000) << "a sequence starves";
      if (steps < 100 && random.Chance(0.3)) {
        Add(static_cast<int32_t>(random.Between(1, random.Chance(0.2) ? 900 : 60)),
            static_cast<int32_t>(random.Between(1, 30)), static_cast<int32_t>(random.Between(0, 1)),
            random.Between(0, 2));
      }
      for (const v1::StepPlan& plan : Plan()) {
        LoadSum load;
        LoadSum tokens;
        int32_t prompt_rows = 0;
        bool generates = false;
        for (const v1::ScheduledSequence& one : plan.scheduled()) {
          load.Add(one.first(), one.count(), one.sample());
          const Sequence* const sequence = scheduler_->FindRunning(SequenceId(one.sequence()));
          const bool prompt = one.first() < sequence->prompt_tokens;
          if (prompt) prompt_rows += one.count();
          if (!prompt) tokens.Add(one.first(), one.count(), one.sample());
          generates |= !prompt;
        }
        if (!generates) continue;
        const double most =
            std::max(Seconds(target), *times_.Predict(tokens.load()) * 4 / 3) + 1e-9;
        if (*times_.Predict(load.load()) > most) {
          EXPECT_LE(prompt_rows, kPromptRowsMin + 1) << "one row more lets a newcomer in";
        }
      }
      if (scheduler_->steps().size() > 0) Finish();
    }
    bounded += scheduler_->bounded_steps();
  }
  EXPECT_GT(bounded, 200u);
}

}  // namespace
}  // namespace tutti::coordinator
