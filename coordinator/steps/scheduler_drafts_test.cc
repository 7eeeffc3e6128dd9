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

// A prefix that was cached has to be read by the draft model.
TEST_F(SchedulerDraftsTest, MuchIsReadOnlyWhereItIsWorthItAndNobodyElseWaits) {
  KvDirectory directory({.key = {}, .model_fingerprint = "m", .dtype = "bf16", .block_size = 16});
  SchedulerOptions options{.draft = true, .drafts_max = kGuessesMax};
  scheduler_ = std::make_unique<Scheduler>(options, &directory);
  scheduler_->BeginEpoch(1, 1000);
  Sequence* const first = Add(2000, 10);
  first->request.drafts_max = 0;
  while (first->output_tokens() < 10) {
    PlanOne();
    Finish();
  }
  // 1,984 tokens are cached.
  Sequence* const small = Add(2000, 20);
  v1::StepPlan plan = PlanOne();
  ASSERT_EQ(plan.scheduled(0).count(), 16);
  EXPECT_EQ(DraftsOf(plan), -1) << "for 18 tokens";
  Finish();
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  scheduler_->Remove(small);
  Sequence* const large = Add(2000, 100);
  EXPECT_EQ(DraftsOf(PlanOne()), 4);
  Finish();
  Sequence* const other = Add(40, 100);
  other->request.drafts_max = 0;
  EXPECT_EQ(DraftsOf(PlanOne()), -1) << "another would wait";
  Finish();
  scheduler_->Remove(other);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(DraftsOf(PlanOne()), 0);
    Finish();
  }
  EXPECT_LE(large->stay.planned - large->stay.draft_read, kDraftsBehindMax);
  Add(40, 100)->request.drafts_max = 0;
  EXPECT_GT(DraftsOf(PlanOne()), 0) << "it has been read";
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

class SchedulerDraftTimesTest : public SchedulerDraftsTest {
 protected:
  SchedulerDraftTimesTest() { times_.emplace(std::vector{UnknownStage()}); }
  // Steps of any size take so long, and a pass of the draft model.
  void Learn(double step, double pass) {
    for (int i = 0; i < 10; ++i) {
      for (const int32_t rows : {1, 2, 4, 8, 16, 32}) {
        times_->OnStep(0, {.rows = double{1} * rows, .depth = 0, .kv_tokens = 0, .sampled = 1},
                       step);
      }
      if (pass > 0) times_->OnDrafts(3, 3 * pass);
    }
  }
  void GrowPace(Sequence* sequence) {
    for (int i = 0; i < 20; ++i) sequence->PaceOf(GuessOrigin::kDraft).OnVerified(15, 15);
  }
};

TEST_F(SchedulerDraftTimesTest, AFewAreAskedForToLearnTheirTime) {
  Start({});
  Learn(0.010, 0);
  Sequence* const sequence = AddRunning(5, 1000);
  GrowPace(sequence);
  EXPECT_EQ(DraftsOf(PlanOne()), kDraftsToLearn);
  Finish();
  Sequence* const other = Add(3, 1000);
  other->request.drafts_max = 0;
  PlanOne();
  Finish();
  EXPECT_EQ(DraftsOf(PlanOne()), 1) << "another waits";
}

TEST_F(SchedulerDraftTimesTest, AsManyAsBringMostTokensInASecond) {
  Start({});
  Learn(0.010, 0.0005);
  Sequence* const sequence = AddRunning(5, 1000);
  GrowPace(sequence);
  EXPECT_EQ(DraftsOf(PlanOne()), 15) << "all are right";
  Finish();
  // Half of them are right: the third brings an eighth of a token, in a tenth of a step.
  GuessPace& pace = sequence->PaceOf(GuessOrigin::kDraft);
  for (int i = 0; i < 60; ++i) pace.OnVerified(2, i % 2);
  pace.OnVerified(15, 15);
  Learn(0.010, 0.001);
  const int32_t some = DraftsOf(PlanOne());
  EXPECT_GE(some, 2);
  EXPECT_LE(some, 5);
  Finish();
  // A pass takes as long as a step.
  Learn(0.010, 0.010);
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  // Where that is so no more, it is found out.
  int32_t most = -1;
  for (int i = 0; i < 1000 && most < 1; ++i) {
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    sequence->request.max_tokens = 1'000'000;
    most = DraftsOf(PlanOne());
    Finish();
  }
  EXPECT_GE(most, 1);
}

// Drafts save the ways of steps too.
TEST_F(SchedulerDraftTimesTest, OfSmallModelsStepsTakeTheirWay) {
  Start({});
  Learn(0.001, 0.001);
  GrowPace(AddRunning(5, 1000));
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  times_->OnWay(0.004);
  EXPECT_GE(DraftsOf(PlanOne()), 8);
}

TEST_F(SchedulerDraftTimesTest, OthersWaitHardlyLonger) {
  Start({});
  Learn(0.010, 0.0005);
  GrowPace(AddRunning(5, 1000));
  Sequence* const other = Add(3, 1000);
  other->request.drafts_max = 0;
  PlanOne();
  Finish();
  EXPECT_EQ(DraftsOf(PlanOne()), -1) << "a pass is five in a hundred";
  Finish();
  Learn(0.010, 0.00015);
  EXPECT_EQ(DraftsOf(PlanOne()), 2) << "and now it is one and a half";
}

TEST_F(SchedulerDraftTimesTest, NoStepIsMuchLongerThanTheTarget) {
  for (const int64_t target_us : {1'000, 11'600, 20'000}) {
    Start({.itl_target = std::chrono::microseconds(target_us)});
    Learn(0.010, 0.00049);
    said_ = 0;
    Sequence* const sequence = AddRunning(5, 1000);
    GrowPace(sequence);
    EXPECT_EQ(DraftsOf(PlanOne()), target_us == 20'000 ? 15 : 10) << "half as long again";
    Finish();
    Sequence* const other = Add(3, 1000);
    other->request.drafts_max = 0;
    PlanOne();
    Finish();
    Learn(0.010, 0.0001);
    EXPECT_EQ(DraftsOf(PlanOne()), target_us == 1'000 ? -1 : 4) << "four in a hundred";
    Finish();
    scheduler_->Remove(other);
    scheduler_->Remove(sequence);
  }
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
