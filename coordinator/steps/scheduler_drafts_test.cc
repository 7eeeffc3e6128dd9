#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "coordinator/steps/scheduler_drafts_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(SchedulerDraftsTest, AreTheGuessesOfTheNextStep) {
  Start({.max_batch_tokens = 4, .chunk_tokens = 4});
  Sequence* const sequence = Add(6, 100);
  v1::StepPlan plan = PlanOne();
  EXPECT_EQ(plan.scheduled(0).count(), 4);
  EXPECT_EQ(DraftsOf(plan), 0) << "it reads the prompt, and there is no token to go on behind";
  Finish();
  plan = PlanOne();
  EXPECT_EQ(plan.scheduled(0).count(), 2);
  EXPECT_EQ(DraftsOf(plan), 4);
  Finish();
  EXPECT_THAT(sequence->stay.drafts, ElementsAre(7, 8, 9, 10));
  right_ = 1;
  plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(7, 8, 9)) << "a step has four rows";
  EXPECT_THAT(sequence->stay.drafts, IsEmpty());
  EXPECT_EQ(DraftsOf(plan), 4);
  Finish();
  EXPECT_EQ(sequence->total(), 11);
  plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(11, 0, 0));
  EXPECT_EQ(DraftsOf(plan), 6) << "three of three were right";
  Finish();
  for (int32_t p = 0; p < sequence->total(); ++p) EXPECT_EQ(sequence->tokens[p], p);
  const Scheduler::Guessed& guessed = scheduler_->guessed();
  EXPECT_EQ(guessed.sources[IndexOf(GuessOrigin::kDraft)].tokens, 6u);
  EXPECT_EQ(guessed.sources[IndexOf(GuessOrigin::kDraft)].right, 4u);
  EXPECT_EQ(guessed.sources[IndexOf(GuessOrigin::kText)].tokens, 0u);
}

TEST_F(SchedulerDraftsTest, ARequestSaysHowManyOrTheOperator) {
  drafts_max_ = 0;
  Start({});
  AddRunning(5, 100);
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  sequences_[0]->request.drafts_max = 2;
  EXPECT_EQ(DraftsOf(PlanOne()), 2);
  Finish();
  // Others' prompts are not read for nothing.
  Add(7, 100);
  const v1::StepPlan plan = PlanOne();
  EXPECT_EQ(DraftsOf(plan, 0), 2);
  EXPECT_EQ(DraftsOf(plan, 1), -1);
}

TEST_F(SchedulerDraftsTest, NoneWithoutADraftModelWhateverTheRequestSays) {
  scheduler_ = std::make_unique<Scheduler>(SchedulerOptions{.drafts_max = 5});
  scheduler_->BeginEpoch(1, 100);
  Add(5, 100)->request.drafts_max = 5;
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
}

TEST_F(SchedulerDraftsTest, NoneBeyondTheOutputsLengthOrItsEnd) {
  Start({});
  Sequence* const sequence = Add(5, 4);
  EXPECT_EQ(DraftsOf(PlanOne()), 2) << "without the token of this step and the last";
  Finish();
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7));
  Finish();
  EXPECT_EQ(sequence->output_tokens(), 4);
  EXPECT_EQ(scheduler_->running(), 0);
  Sequence* const stops = Add(5, 100);
  stops->request.stop_token_ids = {8};
  EXPECT_EQ(DraftsOf(PlanOne()), 4);
  Finish();
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7)) << "8 ends the output";
  Finish();
  scheduler_->Remove(stops);
  Add(5, 2);
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
}

// What was said behind tokens that are others by then is worth nothing.
TEST_F(SchedulerDraftsTest, AreOfTheLastResultOnly) {
  Start({});
  Sequence* const sequence = AddRunning(5, 100);
  EXPECT_THAT(sequence->stay.drafts, ElementsAre(6, 7, 8, 9));
  said_ = 0;
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7, 8, 9));
  Finish();
  EXPECT_THAT(GuessesOf(PlanOne()), IsEmpty());
  said_ = 100;
  Finish();
  EXPECT_EQ(sequence->stay.drafts.size(), 8u);
  scheduler_->EndEpoch();
  EXPECT_THAT(sequence->stay.drafts, IsEmpty()) << "the sequence ran no more";
}

TEST_F(SchedulerDraftsTest, NobodyIsAskedWhoseTextSaysWhatComes) {
  Start({.guesses_max = kGuessesMax});
  Sequence* const sequence = AddRunning(5, 1000);
  EXPECT_THAT(GuessesOf(PlanOne()), ElementsAre(6, 7, 8, 9));
  Finish();
  text_.count_ = 100;
  for (int i = 0; i < 5; ++i) sequence->PaceOf(GuessOrigin::kText).OnVerified(4, 4);
  v1::StepPlan plan = PlanOne();
  EXPECT_EQ(GuessesOf(plan).size(), 8u);
  EXPECT_EQ(DraftsOf(plan), -1);
  Finish();
  EXPECT_EQ(scheduler_->guessed().sources[IndexOf(GuessOrigin::kText)].right, 8u);
  text_.count_ = 0;
  EXPECT_EQ(DraftsOf(PlanOne()), 8);
}

TEST_F(SchedulerDraftsTest, PausesWhileAllIsWrong) {
  Start({});
  right_ = 0;
  Sequence* const sequence = AddRunning(5, 1000);
  int32_t asked = 0;
  for (int step = 0; step < 200; ++step) {
    asked += std::max(0, DraftsOf(PlanOne()));
    Finish();
  }
  EXPECT_LE(asked, 16);
  EXPECT_EQ(sequence->total(), 5 + 201);
}

TEST_F(SchedulerDraftsTest, TakesNoBlockThatAnybodyIsAboutToNeed) {
  Start({}, 1, 3);
  Add(11, 30);
  AddRunning(3, 10);
  // The first has slots up to 16; the last block is left for whoever needs one first.
  v1::StepPlan plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(DraftsOf(plan), -1) << "if all are right, the last slot is taken";
  EXPECT_EQ(plan.scheduled(0).new_blocks_size(), 0);
}

TEST_F(SchedulerDraftsTest, TakesBlocksThatAreLeft) {
  Start({}, 1, 9);
  AddRunning(11, 100);
  const v1::StepPlan plan = PlanOne();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(DraftsOf(plan), 4);
  EXPECT_EQ(plan.scheduled(0).new_blocks_size(), 1);
  EXPECT_EQ(plan.scheduled(0).expected_blocks(), 2);
}

// A prompt that was computed beside others has still to be read by the draft model.
TEST_F(SchedulerDraftsTest, MuchIsReadOnlyWhereItIsWorthItAndNobodyElseWaits) {
  Start({}, 1, 1000);
  const auto add_beside_other = [this](int32_t max_tokens) {
    Sequence* const other = Add(5, 1000);
    other->request.drafts_max = 0;
    PlanOne();
    Finish();
    Sequence* const sequence = Add(2000, max_tokens);
    while (sequence->output_tokens() == 0) {
      const v1::StepPlan plan = PlanOne();
      for (int i = 0; i < plan.scheduled_size(); ++i) EXPECT_EQ(DraftsOf(plan, i), -1);
      Finish();
    }
    EXPECT_EQ(DraftsOf(PlanOne(), 1), -1) << "another would wait";
    Finish();
    scheduler_->Remove(other);
    return sequence;
  };
  Sequence* const small = add_beside_other(20);
  EXPECT_EQ(DraftsOf(PlanOne()), -1) << "for 17 tokens";
  Finish();
  scheduler_->Remove(small);
  Sequence* const large = add_beside_other(200);
  for (int i = 0; i < 8; ++i) {
    EXPECT_GT(DraftsOf(PlanOne()), 0);
    Finish();
  }
  EXPECT_LE(large->stay.planned - large->stay.draft_read, kDraftsBehindMax);
  Add(40, 100)->request.drafts_max = 0;
  EXPECT_GT(DraftsOf(PlanOne()), 0) << "it has been read";
}

// Nobody asks for what no step has rows for.
TEST_F(SchedulerDraftsTest, NoneWhereTheTokensThatAreDueFillAStep) {
  for (const int32_t rows : {4, 5}) {
    Start({.max_batch_tokens = rows});
    for (int i = 0; i < 4; ++i) AddRunning(1, 100);
    const v1::StepPlan plan = PlanOne();
    ASSERT_EQ(plan.scheduled_size(), 4);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(DraftsOf(plan, i) > 0, rows == 5) << i;
    Finish();
  }
}

// What the step itself computes of a prompt is read as well.
TEST_F(SchedulerDraftsTest, NobodyWaitsUntilALongPromptIsRead) {
  for (const int32_t prompt : {200, 300}) {
    Start({.max_batch_tokens = 4096, .chunk_tokens = 4096}, 1, 1000);
    AddRunning(5, 1000)->request.drafts_max = 0;
    Add(prompt, 1000);
    const v1::StepPlan plan = PlanOne();
    ASSERT_EQ(plan.scheduled(1).count(), prompt);
    EXPECT_EQ(DraftsOf(plan, 1), prompt <= kDraftsBehindMax ? 4 : -1);
    Finish();
  }
}

// Many short ones are as much to read as a long one.
TEST_F(SchedulerDraftsTest, NobodyWaitsUntilManyPromptsAreRead) {
  Start({.max_batch_tokens = 4096, .chunk_tokens = 4096}, 1, 1000);
  AddRunning(5, 1000)->request.drafts_max = 0;
  for (int i = 0; i < 10; ++i) Add(100, 1000);
  const v1::StepPlan plan = PlanOne();
  ASSERT_EQ(plan.scheduled_size(), 11);
  int32_t rows = 0;
  for (int i = 1; i < plan.scheduled_size(); ++i) {
    if (plan.scheduled(i).has_drafts()) rows += plan.scheduled(i).count();
  }
  EXPECT_EQ(rows, 200);
}

// A prefix that is cached was read when it was computed.
TEST_F(SchedulerDraftsTest, ACachedPrefixIsAskedAbout) {
  KvDirectory directory({.key = {}, .model_fingerprint = "m", .dtype = "bf16", .block_size = 16});
  scheduler_ =
      std::make_unique<Scheduler>(SchedulerOptions{.draft = true, .drafts_max = 15}, &directory);
  scheduler_->BeginEpoch(1, 1000);
  Sequence* const first = AddRunning(2000, 10);
  while (first->output_tokens() == 0) {
    PlanOne();
    Finish();
  }
  scheduler_->Remove(first);
  Add(2000, 10);
  const v1::StepPlan plan = PlanOne();
  ASSERT_EQ(plan.new_sequences(0).cached_tokens(), 1984);
  EXPECT_EQ(DraftsOf(plan), 4);
}

TEST_F(SchedulerDraftsTest, NoneWhereMoreRunThanMayGuess) {
  Start({.max_sequences = 64}, 1, 200);
  for (size_t i = 0; i < kGuessingSequencesMax; ++i) Add(2, 100);
  v1::StepPlan plan = PlanOne();
  for (int i = 0; i < plan.scheduled_size(); ++i) EXPECT_GT(DraftsOf(plan, i), 0) << i;
  Finish();
  Add(2, 100);
  plan = PlanOne();
  for (int i = 0; i < plan.scheduled_size(); ++i) EXPECT_EQ(DraftsOf(plan, i), -1) << i;
}

TEST_F(SchedulerDraftsTest, OneThatIsTriedAloneHasNone) {
  Start({});
  Sequence* const sequence = AddRunning(5, 100);
  scheduler_->SetAlone(sequence);
  const v1::StepPlan plan = PlanOne();
  EXPECT_EQ(DraftsOf(plan), -1);
  EXPECT_THAT(GuessesOf(plan), IsEmpty());
}

// Whatever is drafted, every sequence gets its tokens, and blocks add up.
TEST_F(SchedulerDraftsTest, AllGetTheirTokens) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    drafts_max_ = static_cast<int32_t>(random.Between(1, 15));
    Start({.max_batch_tokens = static_cast<int32_t>(random.Between(3, 60)),
           .max_sequences = 6,
           .guesses_max = random.Chance(0.5) ? kGuessesMax : 0},
          stages, static_cast<int32_t>(random.Between(5, 30)));
    int steps = 0;
    for (int added = 0; added < 20 || scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 100'000) << "a sequence starves";
      if (added < 20 && random.Chance(0.3)) {
        Add(static_cast<int32_t>(random.Between(1, 40)),
            static_cast<int32_t>(random.Between(1, 40)));
        ++added;
      }
      text_.count_ = static_cast<int32_t>(random.Between(0, 15));
      text_.right_ = static_cast<int32_t>(random.Between(0, 15));
      said_ = static_cast<int32_t>(random.Between(0, 15));
      right_ = static_cast<int32_t>(random.Between(0, 15));
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
