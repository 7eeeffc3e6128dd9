#include "coordinator/steps/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A row that could not be drawn is computed again, after more and more steps of others.
TEST_F(SchedulerTest, LateRowsAreComputedAgainAndHoldNobodyUp) {
  Start({.max_sequences = 20}, 1, 1000);
  Sequence* const late = Add(3, 5);
  Sequence* const other = Add(3, 1000);
  std::vector<uint64_t> steps_of_late;
  for (int step = 0; step < 80; ++step) {
    const std::vector<v1::StepPlan> plans = Plan();
    ASSERT_EQ(plans.size(), 1u) << step;
    for (const auto& scheduled : plans[0].scheduled()) {
      if (scheduled.sequence() != late->stay.id.value()) continue;
      EXPECT_EQ(scheduled.again(), !steps_of_late.empty());
      EXPECT_EQ(scheduled.first(), steps_of_late.empty() ? 0 : 2);
      EXPECT_TRUE(scheduled.sample());
      steps_of_late.push_back(plans[0].step());
    }
    Finish({late});
  }
  EXPECT_THAT(steps_of_late, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_EQ(other->output_tokens(), 80);
  EXPECT_EQ(late->output_tokens(), 0);
  while (late->output_tokens() == 0) {
    Plan();
    Finish();
  }
  Plan();
  Finish();
  EXPECT_EQ(late->output_tokens(), 2) << "the next one is not late";
}

// Neither are others' rows divided as if the late ones came with every step, nor do the late ones
// have a step of their own while another is under way.
TEST_F(SchedulerTest, LateRowsLeaveStagesToOthers) {
  Start({.max_sequences = 100}, 2, 1000);
  std::vector<const Sequence*> late;
  for (int i = 0; i < 40; ++i) late.push_back(Add(3, 1000));
  std::vector<Sequence*> others;
  for (int i = 0; i < 8; ++i) others.push_back(Add(3, 1000));
  const auto is_late = [&](uint64_t id) {
    return std::any_of(late.begin(), late.end(),
                       [&](const Sequence* one) { return one->stay.id.value() == id; });
  };
  for (int step = 0; step < 200; ++step) {
    for (const v1::StepPlan& plan : Plan()) {
      if (step < 50) continue;
      EXPECT_FALSE(std::all_of(plan.scheduled().begin(), plan.scheduled().end(),
                               [&](const auto& one) { return is_late(one.sequence()); }));
    }
    if (step >= 50) {
      EXPECT_EQ(scheduler_->steps().size(), 2u) << step;
    }
    Finish(late);
  }
  for (const Sequence* const one : others) EXPECT_GE(one->output_tokens(), 90);
}

TEST_F(SchedulerTest, LateRowsNeedNotWaitWhereNothingElseIsToDo) {
  Start({}, 2, 100);
  Sequence* const late = Add(20, 5);
  for (int step = 0; step < 10; ++step) {
    const std::vector<v1::StepPlan> plans = Plan();
    ASSERT_EQ(plans.size(), 1u) << step;
    EXPECT_THAT(Counts(plans[0]), ElementsAre(step == 0 ? 20 : 1));
    Finish({late});
  }
  // It may leave, or give way, while it waits.
  Sequence* const other = Add(3, 5);
  scheduler_->Remove(late);
  Plan();
  Finish();
  EXPECT_EQ(other->output_tokens(), 1);
}

// The block of a row that is computed again is nobody else's before.
TEST_F(SchedulerTest, BlocksOfLateRowsAreNotPublished) {
  KvDirectory directory(KvDirectoryOptions{});
  scheduler_ = std::make_unique<Scheduler>(SchedulerOptions{}, &directory, PipelineId(0));
  scheduler_->BeginEpoch(1, 100);
  Sequence* const late = Add(32, 5);
  Plan();
  Finish({late});
  EXPECT_EQ(late->stay.computed, 31);
  EXPECT_EQ(late->stay.published, 1);
  Plan();
  Finish();
  EXPECT_EQ(late->stay.published, 2);
}

TEST_F(SchedulerTest, NothingToDoNoPlan) {
  Start({}, 2, 10);
  EXPECT_TRUE(Plan().empty());
}

TEST_F(SchedulerTest, GeneratingSequencesAreDividedOverTheStages) {
  for (const int32_t stages : {1, 2, 3, 4}) {
    for (const int32_t count : {1, 2, 3, 5, 8, 13}) {
      sequences_.clear();
      Start({.max_sequences = 20}, stages, 1000);
      for (int32_t i = 0; i < count; ++i) Add(3, 100);
      Plan();
      size_t fullest = 0;
      for (int step = 0; step < 60; ++step) {
        Finish();
        Plan();
        if (step < 20) continue;  // they find their shares first
        const auto share = static_cast<size_t>((count + stages - 1) / stages);
        EXPECT_LE(scheduler_->steps().oldest().entries.size(), share);
        EXPECT_GE(scheduler_->steps().size(), static_cast<size_t>(std::min<int32_t>(
                                                  stages, count / static_cast<int32_t>(share))))
            << stages << " stages, " << count << " sequences";
        fullest = std::max(fullest, scheduler_->steps().size());
      }
      EXPECT_LE(fullest, static_cast<size_t>(stages) + 1);
    }
  }
}

TEST_F(SchedulerTest, ALongPromptsChunksFillTheStages) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 16}, 3, 100);
  Add(100, 5);
  const auto plans = Plan();
  ASSERT_EQ(plans.size(), 4u) << "as many as stages and one more";
  for (const auto& plan : plans) EXPECT_THAT(Counts(plan), ElementsAre(16));
  EXPECT_EQ(plans[3].scheduled(0).first(), 48);
  Finish();
  Finish();
  EXPECT_EQ(Plan().size(), 2u);
  Finish();
  const auto last = Plan();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_THAT(Counts(last[0]), ElementsAre(4));
  EXPECT_TRUE(last[0].scheduled(0).sample());
  EXPECT_FALSE(plans[3].scheduled(0).sample());
}

TEST_F(SchedulerTest, TokensComeBeforePromptsAndPromptsInOrder) {
  Start({.max_batch_tokens = 20, .chunk_tokens = 12}, 1, 100);
  Add(2, 50);
  Add(3, 50);
  Plan();
  Finish();
  Add(30, 5);
  Add(30, 5);
  const auto plan = Plan();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_THAT(Counts(plan[0]), ElementsAre(1, 1, 12, 6));
  Finish();
  EXPECT_THAT(Counts(Plan().at(0)), ElementsAre(1, 1, 12, 6));
}

TEST_F(SchedulerTest, EverybodyGetsATurn) {
  Start({.max_batch_tokens = 4, .chunk_tokens = 4, .max_sequences = 12}, 3, 1000);
  for (int i = 0; i < 12; ++i) Add(1, 1000);
  for (int step = 0; step < 600; ++step) {
    Plan();
    Finish();
  }
  int32_t least = 1 << 30;
  int32_t most = 0;
  for (const auto& sequence : sequences_) {
    least = std::min(least, sequence->output_tokens());
    most = std::max(most, sequence->output_tokens());
  }
  EXPECT_GE(least, 195);
  EXPECT_LE(most - least, 2);
}

TEST_F(SchedulerTest, FullToTheLastSlot) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 64}, 2, 4);
  Add(60, 5);
  while (!sequences_[0]->stay.blocks.empty() || scheduler_->waiting() > 0) {
    Plan();
    Finish();
  }
  EXPECT_EQ(sequences_[0]->output_tokens(), 5);
  EXPECT_EQ(scheduler_->preemptions(), 0u);
}

TEST_F(SchedulerTest, TheOldestIsNeverSentBack) {
  Random random(3);
  for (int round = 0; round < 30; ++round) {
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 4));
    const auto blocks = static_cast<int32_t>(random.Between(4, 8));
    Start({.max_batch_tokens = 16, .chunk_tokens = 8, .max_sequences = 6}, stages, blocks);
    for (int i = 0; i < 12; ++i) {
      const auto prompt = static_cast<int32_t>(random.Between(1, 16 * blocks / 2));
      Add(prompt, static_cast<int32_t>(random.Between(1, 16 * blocks - prompt + 1)));
    }
    SequenceId oldest;
    size_t oldest_index = 0;
    int steps = 0;
    while (scheduler_->running() + scheduler_->waiting() > 0) {
      Plan();
      ASSERT_LT(++steps, 100'000) << "a sequence starves";
      const auto& sequence = sequences_[oldest_index];
      if (oldest == SequenceId()) oldest = sequence->stay.id;
      ASSERT_EQ(sequence->stay.id, oldest) << "sequence " << oldest_index << " was sent back";
      Finish();
      while (oldest_index < sequences_.size() && sequences_[oldest_index]->output_tokens() ==
                                                     sequences_[oldest_index]->request.max_tokens) {
        ++oldest_index;
        oldest =
            oldest_index < sequences_.size() ? sequences_[oldest_index]->stay.id : SequenceId();
      }
    }
    for (const auto& sequence : sequences_) {
      EXPECT_EQ(sequence->output_tokens(), sequence->request.max_tokens);
      for (int32_t p = 0; p < sequence->total(); ++p) EXPECT_EQ(sequence->tokens[p], p);
    }
  }
}

TEST_F(SchedulerTest, BlocksGoOverInOnePlan) {
  Start({}, 2, 2);
  Sequence* const first = Add(20, 5);
  const auto plans = Plan();
  Sequence* const second = Add(20, 5);
  EXPECT_TRUE(Plan().empty());
  scheduler_->Remove(first);
  const auto next = Plan();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_THAT(next[0].finished(), ElementsAre(plans[0].scheduled(0).sequence()));
  EXPECT_THAT(next[0].scheduled(0).new_blocks(), ElementsAre(0, 1));
  EXPECT_EQ(second->stay.blocks.size(), 2u);
  Finish();
  EXPECT_EQ(first->output_tokens(), 0) << "its result is dropped";
  Finish();
  EXPECT_EQ(second->output_tokens(), 1);
}

TEST_F(SchedulerTest, ASequenceThatNeverRanIsNotForgotten) {
  Start({.max_sequences = 1}, 1, 10);
  Add(5, 5);
  Sequence* const waiting = Add(5, 5);
  Plan();
  scheduler_->Remove(waiting);
  Finish();
  for (const auto& plan : Plan()) EXPECT_TRUE(plan.finished().empty());
}

// Recovery builds on this: after the end of an epoch all sequences can go on in the next
// one.
TEST_F(SchedulerTest, SequencesSurviveTheirPipeline) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 64, .max_sequences = 2}, 3, 20);
  Add(10, 9);
  Add(12, 9);
  Add(3, 9);
  Plan();
  Finish();
  Plan();
  Finish();
  EXPECT_EQ(sequences_[0]->total(), 12);
  scheduler_->EndEpoch();
  EXPECT_EQ(scheduler_->running(), 0);
  EXPECT_EQ(scheduler_->waiting(), 3);
  EXPECT_EQ(scheduler_->blocks_in_use(), 0);
  EXPECT_EQ(scheduler_->steps().size(), 0u);
  for (const auto& sequence : sequences_) EXPECT_EQ(sequence->stay.planned, 0);
  scheduler_->BeginEpoch(2, 20);
  const auto plans = Plan();
  ASSERT_GE(plans.size(), 1u);
  EXPECT_EQ(plans[0].step(), 1u);
  EXPECT_TRUE(plans[0].finished().empty()) << "the new workers know no sequence";
  ASSERT_EQ(plans[0].new_sequences_size(), 2);
  EXPECT_EQ(plans[0].new_sequences(0).tokens_size(), 12);
  EXPECT_EQ(plans[0].new_sequences(0).prompt_tokens(), 10);
  EXPECT_EQ(plans[0].scheduled(0).first(), 0);
  while (scheduler_->running() + scheduler_->waiting() > 0) {
    Finish();
    Plan();
  }
  for (const auto& sequence : sequences_) {
    for (int32_t p = 0; p < sequence->total(); ++p) EXPECT_EQ(sequence->tokens[p], p);
  }
}

// The sums that the router reads, under everything that can happen to a pipeline.
TEST_F(SchedulerTest, TheBacklogIsThatOfAWalk) {
  uint64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    sequences_.clear();
    Start({.max_batch_tokens = 24, .chunk_tokens = 10, .max_sequences = 6}, 2, 9);
    std::set<const Sequence*> removed;
    for (int move = 0; move < 600; ++move) {
      const int64_t what = random.Between(0, 9);
      if (what < 2) {
        const auto prompt = static_cast<int32_t>(random.Between(1, 60));
        Add(prompt, static_cast<int32_t>(random.Between(1, 80)),
            static_cast<int32_t>(random.Between(-1, 1)));
      } else if (what < 5) {
        Plan();
      } else if (what < 8 && scheduler_->steps().size() > 0) {
        Finish();
      } else if (what == 8 && random.Chance(0.3) && !sequences_.empty()) {
        Sequence* const one = sequences_[random.Between(0, sequences_.size() - 1)].get();
        const bool ended = one->output_tokens() == one->request.max_tokens;
        if (!ended && removed.insert(one).second) scheduler_->Remove(one);
      } else if (what == 9 && random.Chance(0.05)) {
        scheduler_->EndEpoch();
        scheduler_->BeginEpoch(2, 9);
      }
      int64_t tokens = 0;
      for (const auto& one : sequences_) {
        const bool ended = one->output_tokens() == one->request.max_tokens;
        if (ended || removed.contains(one.get())) continue;
        const bool waits = one->stay.id == SequenceId();
        if (waits || one->behind() > 1) tokens += one->behind();
      }
      ASSERT_EQ(scheduler_->backlog().tokens(), tokens) << "seed " << seed << ", move " << move;
      ASSERT_TRUE(scheduler_->backlog().SumsAreRight()) << "seed " << seed << ", move " << move;
    }
    preemptions += scheduler_->preemptions();
  }
  EXPECT_GT(preemptions, 10u);
}

TEST_F(SchedulerTest, RoomIsWhatThoseBeforeItLeave) {
  Start({.max_sequences = 4}, 1, 10);
  Add(33, 1, /*priority=*/0);
  Sequence newcomer;
  newcomer.request.max_tokens = 1;
  newcomer.tokens.resize(96);  // 6 blocks
  EXPECT_TRUE(scheduler_->HasRoom(newcomer, 0)) << "3 blocks wait, and one to grow into";
  Add(1, 1, /*priority=*/1);
  EXPECT_TRUE(scheduler_->HasRoom(newcomer, 0)) << "a sequence that comes after it does not count";
  Add(1, 1, /*priority=*/-1);
  EXPECT_FALSE(scheduler_->HasRoom(newcomer, 0));
  newcomer.tokens.resize(64);
  EXPECT_TRUE(scheduler_->HasRoom(newcomer, 0));
  Add(1, 1, /*priority=*/0);
  Add(1, 1, /*priority=*/0);
  newcomer.tokens.resize(1);
  EXPECT_FALSE(scheduler_->HasRoom(newcomer, 0)) << "four wait";
}

TEST_F(SchedulerTest, EveryStayHasItsOwnName) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 64}, 1, 4);
  Sequence* const first = Add(30, 30);
  Plan();
  Finish();
  Sequence* const second = Add(14, 20);
  Plan();
  const SequenceId before = second->stay.id;
  while (scheduler_->preemptions() == 0) {
    Finish();
    Plan();
  }
  EXPECT_EQ(second->stay.id, SequenceId());
  EXPECT_EQ(second->preemptions, 1);
  EXPECT_EQ(first->preemptions, 0);
  EXPECT_TRUE(second->stay.blocks.empty());
  scheduler_->Remove(first);
  Plan();
  EXPECT_GT(second->stay.id, before);
}

}  // namespace
}  // namespace tutti::coordinator
