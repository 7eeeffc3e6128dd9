#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SchedulerGuessesTest : public SchedulerTest {
 protected:
  void Start(SchedulerOptions options, int32_t stages = 1, int32_t blocks = 100,
             KvDirectory* directory = nullptr) {
    options.guesses_max = guesses_max_;
    scheduler_ = std::make_unique<Scheduler>(options, directory);
    scheduler_->GuessBy(&guesses_);
    if (times_.has_value()) scheduler_->TimeBy(&*times_);
    scheduler_->BeginEpoch(stages, blocks);
  }
  v1::StepPlan PlanOne() {
    v1::StepPlan plan;
    EXPECT_TRUE(scheduler_->Plan(Instant(), &plan));
    scheduler_->CheckLedger();
    return plan;
  }
  static std::vector<int32_t> GuessesOf(const v1::StepPlan& plan, int i = 0) {
    const auto& guesses = plan.scheduled(i).guesses();
    return {guesses.begin(), guesses.end()};
  }
  // Its prompt is computed, and nothing is guessed meanwhile.
  Sequence* AddRunning(int32_t prompt, int32_t max_tokens) {
    const int32_t count = std::exchange(guesses_.count_, 0);
    Sequence* const sequence = Add(prompt, max_tokens);
    PlanOne();
    Finish();
    guesses_.count_ = count;
    return sequence;
  }

  int32_t guesses_max_ = kGuessesMax;
  CountingGuesses guesses_;
  std::optional<StepTimes> times_;
};

TEST_F(SchedulerGuessesTest, ThoseThatWereRightAreTokensAndComputed) {
  Start({});
  Sequence* const sequence = AddRunning(5, 100);
  guesses_.right_ = 2;
  v1::StepPlan plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(6, 7, 0, 0));
  EXPECT_EQ(plan.scheduled(0).first(), 5);
  EXPECT_EQ(plan.scheduled(0).count(), 5);
  EXPECT_EQ(plan.scheduled(0).expected_tokens(), 6);
  EXPECT_TRUE(plan.scheduled(0).sample());
  EXPECT_EQ(plan.total_rows(), 5);
  EXPECT_TRUE(Plan().empty()) << "it waits for what was right";
  Finish();
  EXPECT_EQ(sequence->total(), 9) << "two guesses, and the token behind them";
  EXPECT_EQ(sequence->stay.computed, 8);
  EXPECT_EQ(sequence->behind(), 1);
  plan = PlanOne();
  EXPECT_EQ(plan.scheduled(0).first(), 8);
  EXPECT_EQ(plan.scheduled(0).expected_tokens(), 9);
  EXPECT_THAT(plan.scheduled(0).new_tokens(), ElementsAre(6, 7, 8));
  for (int32_t p = 0; p < sequence->total(); ++p) EXPECT_EQ(sequence->tokens[p], p);
  EXPECT_EQ(scheduler_->guessed().times, 1u);
  EXPECT_EQ(scheduler_->guessed().tokens, 4u);
  EXPECT_EQ(scheduler_->guessed().right[0], 1u);
  EXPECT_EQ(scheduler_->guessed().right[1], 1u);
  EXPECT_EQ(scheduler_->guessed().right[2], 0u);
  EXPECT_EQ(sequence->guessed, 4);
  EXPECT_EQ(sequence->guessed_right, 2);
}

// Of which a worker may die.
TEST_F(SchedulerGuessesTest, TheirRowsAreUnderWayUntilTheirStepIsDone) {
  Start({});
  const Sequence* const sequence = AddRunning(5, 100);
  EXPECT_EQ(scheduler_->steps().GuessesOf(sequence->stay.id), 0);
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(scheduler_->steps().GuessesOf(sequence->stay.id), 4);
  Finish();
  EXPECT_EQ(scheduler_->steps().GuessesOf(sequence->stay.id), 0);
}

TEST_F(SchedulerGuessesTest, AGuessIsTakenBeforeItsMaskIsThere) {
  Start({});
  Sequence* const sequence = AddRunning(5, 100);
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7, 8, 9));
  before_late_ = 2;
  Finish({sequence});
  EXPECT_EQ(sequence->total(), 8) << "6 and 7 were right, nothing could be drawn behind them";
  EXPECT_EQ(sequence->stay.computed, 7);
  v1::StepPlan plan = PlanOne();
  EXPECT_EQ(plan.scheduled(0).first(), 7) << "the row of 7 once more";
  EXPECT_FALSE(plan.scheduled(0).again()) << "it was a guess when it was computed";
  EXPECT_THAT(plan.scheduled(0).new_tokens(), ElementsAre(6, 7));
  // Its first row is late: that one is computed again, and nothing is guessed beside it.
  before_late_ = 0;
  Finish({sequence});
  EXPECT_EQ(sequence->total(), 8);
  EXPECT_EQ(sequence->stay.computed, 7);
  plan = PlanOne();
  EXPECT_TRUE(plan.scheduled(0).again());
  EXPECT_EQ(plan.scheduled(0).first(), 7);
  EXPECT_THAT(GuessesOf(plan), IsEmpty());
  // Those behind it were computed, and looked at by nobody.
  EXPECT_EQ(scheduler_->guessed().times, 1u);
  EXPECT_EQ(scheduler_->guessed().tokens, 7u);
  EXPECT_EQ(sequence->guessed, 7);
  EXPECT_EQ(sequence->guessed_right, 2);
  EXPECT_EQ(sequence->PaceOf(GuessOrigin::kText).Next(), 1) << "half of those after two were right";
  Finish();
  EXPECT_EQ(sequence->total(), 9);
  EXPECT_FALSE(PlanOne().scheduled(0).again());
}

TEST_F(SchedulerGuessesTest, ARequestSaysHowManyOrTheOperator) {
  guesses_max_ = 0;
  Start({});
  AddRunning(5, 100);
  EXPECT_THAT(GuessesOf(PlanOne()), IsEmpty());
  Finish();
  sequences_[0]->request.guesses_max = 2;
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(7, 8));
  Finish();
  sequences_[0]->request.guesses_max = 0;
  EXPECT_THAT(GuessesOf(PlanOne()), IsEmpty());
}

TEST_F(SchedulerGuessesTest, NoneBeyondTheOutputsLengthOrItsEnd) {
  Start({});
  Sequence* const sequence = AddRunning(5, 3);
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6)) << "the last token comes behind it";
  Finish();
  EXPECT_EQ(sequence->output_tokens(), 3);
  EXPECT_EQ(scheduler_->running(), 0);
  Sequence* const stops = AddRunning(5, 100);
  stops->request.stop_token_ids = {8};
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7));
}

TEST_F(SchedulerGuessesTest, RowsOfPromptsComeFirst) {
  Start({.max_batch_tokens = 16});
  AddRunning(5, 100);
  Add(13, 10);
  EXPECT_THAT(Counts(PlanOne()), ElementsAre(3, 13)) << "two rows were left";
  Finish();
  Add(100, 10);
  EXPECT_THAT(Counts(PlanOne()), ElementsAre(1, 1, 14));
}

TEST_F(SchedulerGuessesTest, TakesNoBlockThatAnybodyIsAboutToNeed) {
  Start({}, 1, 3);
  AddRunning(13, 30);
  AddRunning(3, 10);
  // The first ends its block with this step; the last block is left for whoever needs one first.
  const v1::StepPlan plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan, 0), ElementsAre(15));
  EXPECT_EQ(plan.scheduled(0).new_blocks_size(), 0);
}

TEST_F(SchedulerGuessesTest, BlocksArePublishedOfTokensThatWereDrawn) {
  KvDirectory directory({.key = {}, .model_fingerprint = "m", .dtype = "bf16", .block_size = 16});
  Start({}, 1, 100, &directory);
  guesses_.right_ = 1;
  Sequence* const sequence = AddRunning(13, 30);
  const v1::StepPlan plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(14, 0, 0, 0));
  EXPECT_THAT(plan.scheduled(0).new_blocks(), ElementsAre(1));
  Finish();
  EXPECT_EQ(sequence->stay.computed, 15);
  EXPECT_EQ(sequence->stay.published, 0) << "the last slot of the first block holds a wrong guess";
  guesses_.right_ = 100;
  EXPECT_EQ(PlanOne().scheduled(0).first(), 15);
  Finish();
  EXPECT_EQ(sequence->stay.published, 1);
}

TEST_F(SchedulerGuessesTest, IsForgottenWithItsStay) {
  Start({}, 1, 3);
  Sequence* const first = AddRunning(14, 18);
  Sequence* const second = AddRunning(14, 18);
  for (int step = 0; scheduler_->preemptions() == 0; ++step) {
    ASSERT_LT(step, 10);
    PlanOne();
    Finish();
  }
  EXPECT_THAT(guesses_.forgotten_, ElementsAre(second->request.id));
  while (scheduler_->running() + scheduler_->waiting() > 0) {
    PlanOne();
    Finish();
  }
  EXPECT_THAT(guesses_.forgotten_,
              ElementsAre(second->request.id, first->request.id, second->request.id));
  for (const auto& one : {first, second}) {
    EXPECT_EQ(one->output_tokens(), 18);
    for (int32_t p = 0; p < one->total(); ++p) EXPECT_EQ(one->tokens[p], p);
  }
}

TEST_F(SchedulerGuessesTest, OthersWaitHardlyLongerAndNobodyForNothing) {
  times_.emplace(std::vector<placement::StagePlacement>{UnknownStage()});
  Start({});
  Sequence* const first = AddRunning(5, 1000);
  EXPECT_THAT(GuessesOf(PlanOne()), IsEmpty()) << "no time is known";
  Finish();
  // Rows cost nothing: a step of any size takes 10 ms.
  const auto learn = [&](double of_one, double of_sixteen) {
    for (int i = 0; i < 10; ++i) {
      for (const int32_t rows : {1, 2, 4, 8, 16, 32}) {
        const double seconds = of_one + (of_sixteen - of_one) * (rows - 1) / 15;
        times_->OnStep(0, {.rows = double{1} * rows, .depth = 0, .kv_tokens = 0, .sampled = 1},
                       seconds);
      }
    }
  };
  learn(0.010, 0.010);
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(7, 8, 9, 10));
  Finish();
  EXPECT_EQ(GuessesOf(PlanOne()).size(), 8u);
  Finish();
  EXPECT_EQ(GuessesOf(PlanOne()).size(), 15u);
  Finish();
  // Each row more costs half a step. More than half of them must be right for that.
  learn(0.010, 0.085);
  EXPECT_EQ(GuessesOf(PlanOne()).size(), 1u);
  Finish();
  // Beside another without guesses.
  Sequence* const other = Add(3, 1000);
  other->request.guesses_max = 0;
  PlanOne();
  Finish();
  EXPECT_THAT(GuessesOf(PlanOne()), IsEmpty());
  Finish();
  learn(0.010, 0.0103);
  EXPECT_GE(GuessesOf(PlanOne()).size(), 8u) << "three in a hundred longer";
  Finish();
  scheduler_->Remove(other);
  // What is wrong most of the time is worth little.
  guesses_.right_ = 0;
  learn(0.010, 0.085);
  int32_t guessed = 0;
  for (int step = 0; step < 200; ++step) {
    guessed += static_cast<int32_t>(GuessesOf(PlanOne()).size());
    Finish();
  }
  EXPECT_LE(guessed, 20);
  EXPECT_GT(first->total(), 200);
  // The text says again what it said: that is seen though no guess was worth its time lately.
  guesses_.right_ = 100;
  learn(0.010, 0.040);
  size_t most = 0;
  for (int step = 0; step < 300 && most < 8; ++step) {
    most = std::max(most, GuessesOf(PlanOne()).size());
    Finish();
  }
  EXPECT_GE(most, 8u);
}

TEST_F(SchedulerGuessesTest, NoStepThatOthersWaitForIsLongerThanTheTarget) {
  for (const int64_t target_us : {0, 18'200, 30'000}) {
    times_.emplace(std::vector<placement::StagePlacement>{UnknownStage()});
    Start({.itl_target = std::chrono::microseconds(target_us), .guesses_stretch = 1});
    Sequence* const first = AddRunning(5, 1000);
    Sequence* const other = AddRunning(5, 1000);
    other->request.guesses_max = 0;
    for (int i = 0; i < 10; ++i) {
      for (const auto& [rows, seconds] :
           {std::pair(1, 0.018), std::pair(2, 0.018), std::pair(4, 0.0205), std::pair(8, 0.021)}) {
        times_->OnStep(0, {.rows = double{1} * rows, .depth = 0, .kv_tokens = 0, .sampled = 1},
                       seconds);
      }
    }
    EXPECT_EQ(PlanOne().total_rows(), target_us == 18'200 ? 2 : 6) << target_us;
    Finish();
    scheduler_->Remove(other);
    EXPECT_GE(PlanOne().total_rows(), 5) << "nobody waits for its guesses";
    Finish();
    scheduler_->Remove(first);
  }
}

TEST_F(SchedulerGuessesTest, NoStepIsMuchLongerThanTheTarget) {
  times_.emplace(std::vector<placement::StagePlacement>{UnknownStage()});
  Start({.itl_target = std::chrono::milliseconds(10)});
  Sequence* const sequence = AddRunning(5, 1000);
  for (int i = 0; i < 20; ++i) sequence->PaceOf(GuessOrigin::kText).OnVerified(8, 8);
  for (int i = 0; i < 10; ++i) {
    for (const int32_t rows : {1, 2, 4, 8, 16}) {
      times_->OnStep(0, {.rows = double{1} * rows, .depth = 0, .kv_tokens = 0, .sampled = 1},
                     0.020 * (16 + rows) / 17);
    }
  }
  EXPECT_EQ(PlanOne().total_rows(), 9) << "half as long again";
}

// Whatever is guessed, every sequence gets its tokens, in any order of events, and blocks add up.
TEST_F(SchedulerGuessesTest, AllGetTheirTokens) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    Start({.max_batch_tokens = static_cast<int32_t>(random.Between(3, 60)), .max_sequences = 6},
          stages, static_cast<int32_t>(random.Between(5, 30)));
    int steps = 0;
    for (int added = 0; added < 20 || scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 100'000) << "a sequence starves";
      if (added < 20 && random.Chance(0.3)) {
        Add(static_cast<int32_t>(random.Between(1, 40)),
            static_cast<int32_t>(random.Between(1, 40)));
        ++added;
      }
      guesses_.count_ = static_cast<int32_t>(random.Between(0, 15));
      guesses_.right_ = static_cast<int32_t>(random.Between(0, 15));
      Plan();
      if (scheduler_->steps().size() > 0) Finish();
      if (random.Chance(0.01)) {
        scheduler_->EndEpoch();
        scheduler_->BeginEpoch(stages, 30);
      }
    }
    for (const auto& one : sequences_) {
      EXPECT_EQ(one->output_tokens(), one->request.max_tokens);
      for (int32_t p = 0; p < one->total(); ++p) EXPECT_EQ(one->tokens[p], p);
    }
    EXPECT_EQ(scheduler_->blocks_in_use(), 0);
  }
}

}  // namespace
}  // namespace tutti::coordinator
