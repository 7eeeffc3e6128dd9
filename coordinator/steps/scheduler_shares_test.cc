// How owners and requests share the places, the blocks and the rows of a pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"
#include "coordinator/steps/step_times.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;

class SchedulerSharesTest : public SchedulerTest {
 protected:
  // Sequences that run, by owner.
  std::map<uint64_t, int32_t> Places() const {
    std::map<uint64_t, int32_t> places;
    for (const Sequence* one : scheduler_->Running()) ++places[one->request.owner.low];
    return places;
  }
  void Step() {
    Plan();
    if (scheduler_->steps().size() > 0) Finish();
  }
  static bool Runs(const Sequence* sequence) { return sequence->stay.id != SequenceId(); }
  static bool Ended(const Sequence& sequence) {
    return sequence.output_tokens() == sequence.request.max_tokens;
  }
  void RunAll() {
    for (int steps = 0; scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 100'000) << "a sequence starves";
      Step();
    }
    for (const auto& one : sequences_) {
      for (int32_t p = 0; p < one->total(); ++p) ASSERT_EQ(one->tokens[p], p);
    }
  }
};

// ---- places

TEST_F(SchedulerSharesTest, AloneOneRequestTakesAllPlaces) {
  Start({.max_sequences = 64}, 2, 1000);
  AddOutputs(64, 3, 50);
  for (int step = 0; step < 10; ++step) Step();
  EXPECT_EQ(scheduler_->running(), 64);
  RunAll();
  EXPECT_EQ(scheduler_->preemptions(), 0u);
}

TEST_F(SchedulerSharesTest, OneThatRunsNothingWaitsForNoAnswerOfAnother) {
  for (const bool of_one_request : {false, true}) {
    sequences_.clear();
    Start({.max_sequences = 8}, 1, 1000);
    // Eight requests of an owner, or eight outputs of a request.
    if (of_one_request) {
      AddOutputs(8, 3, 500);
    } else {
      for (int i = 0; i < 8; ++i) Add(3, 500, 0, /*owner=*/1);
    }
    for (int step = 0; step < 5; ++step) Step();
    ASSERT_EQ(scheduler_->running(), 8);
    Sequence* const newcomer = Add(3, 10, 0, of_one_request ? 0 : 2);
    EXPECT_TRUE(scheduler_->CanPlan());
    Plan();
    EXPECT_TRUE(Runs(newcomer));
    EXPECT_FALSE(Runs(sequences_[7].get())) << "the latest gives way";
    EXPECT_GT(sequences_[7]->output_tokens(), 0) << "and keeps its tokens";
    EXPECT_EQ(scheduler_->preemptions(), 1u);
    RunAll();
    EXPECT_EQ(scheduler_->preemptions(), 1u) << "it comes back when there is a place";
  }
}

TEST_F(SchedulerSharesTest, NobodyGivesWayWhereAllRunTheSame) {
  Start({.max_sequences = 4}, 1, 1000);
  for (int i = 0; i < 8; ++i) Add(3, 20);  // requests of one owner
  RunAll();
  EXPECT_EQ(scheduler_->preemptions(), 0u);
  sequences_.clear();
  for (uint64_t owner = 1; owner <= 8; ++owner) Add(3, 20, 0, owner);
  RunAll();
  EXPECT_EQ(scheduler_->preemptions(), 0u);
}

TEST_F(SchedulerSharesTest, PlacesBecomeEven) {
  Start({.max_sequences = 12}, 1, 10'000);
  for (int i = 0; i < 30; ++i) Add(3, 3000, 0, 1);
  Step();
  AddOutputs(30, 3, 3000, 2);
  for (int step = 0; step < 3; ++step) Step();
  EXPECT_EQ(Places(), (std::map<uint64_t, int32_t>{{1, 6}, {2, 6}}));
  Sequence* const small = Add(3, 3000, 0, 2);
  Add(3, 3000, 0, 3);
  Add(3, 3000, 0, 3);
  for (int step = 0; step < 3; ++step) Step();
  EXPECT_EQ(Places(), (std::map<uint64_t, int32_t>{{1, 5}, {2, 5}, {3, 2}}));
  EXPECT_TRUE(Runs(small)) << "of the second owner's requests";
  const uint64_t preemptions = scheduler_->preemptions();
  EXPECT_EQ(preemptions, 9u) << "one for each place that changed hands, within an owner too";
  for (int step = 0; step < 50; ++step) Step();
  EXPECT_EQ(scheduler_->preemptions(), preemptions) << "and no more";
}

TEST_F(SchedulerSharesTest, NobodyGivesWayToALowerClass) {
  Start({.max_sequences = 4}, 1, 1000);
  for (int i = 0; i < 4; ++i) Add(3, 100, /*priority=*/0, 1);
  for (int step = 0; step < 3; ++step) Step();
  Sequence* const lower = Add(3, 10, /*priority=*/1, 2);
  for (int step = 0; step < 3; ++step) Step();
  EXPECT_FALSE(Runs(lower));
  Sequence* const higher = Add(3, 10, /*priority=*/-1, 3);
  Step();
  EXPECT_TRUE(Runs(higher));
  RunAll();
}

// ---- blocks

// Outputs of three blocks each, as many as have room; the newcomer needs five.
TEST_F(SchedulerSharesTest, BlocksAreTakenFromWhoRunsMost) {
  Start({.max_sequences = 20}, 1, 26);
  AddOutputs(8, 33, 10);
  Step();
  Sequence* const newcomer = Add(70, 5);
  Plan();
  EXPECT_TRUE(Runs(newcomer));
  EXPECT_EQ(scheduler_->preemptions(), 1u) << "no more than it takes";
  RunAll();
}

// All outputs but one may give way, which would not do.
TEST_F(SchedulerSharesTest, NobodyGivesWayInVain) {
  Start({.max_sequences = 20}, 1, 34);
  AddOutputs(8, 50, 100);
  Step();
  const int32_t running = scheduler_->running();
  ASSERT_GE(running, 6);
  Sequence* const newcomer = Add(16 * 32, 5);
  for (int step = 0; step < 5; ++step) {
    Step();
    EXPECT_EQ(scheduler_->running(), running);
  }
  EXPECT_FALSE(Runs(newcomer));
  RunAll();
}

TEST_F(SchedulerSharesTest, WhenBlocksRunOutTheOneWithMostGivesWay) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 64, .max_sequences = 8}, 1, 10);
  AddOutputs(4, 20, 60, /*owner=*/1);
  Sequence* const small = Add(20, 40, 0, /*owner=*/2);
  while (!Ended(*small)) {
    Step();
    ASSERT_TRUE(Runs(small) || Ended(*small)) << "though it came last";
  }
  EXPECT_GT(scheduler_->preemptions(), 0u);
  RunAll();
}

// ---- promises under everything at once

// Of the running sequences, the one that arrived first is never sent back; so all end.
TEST_F(SchedulerSharesTest, TheEarliestAlwaysGetsOn) {
  uint64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    const auto blocks = static_cast<int32_t>(random.Between(5, 30));
    Start({.max_batch_tokens = 16, .chunk_tokens = 8, .max_sequences = 6}, stages, blocks);
    const auto add = [&] {
      const auto prompt = static_cast<int32_t>(random.Between(1, 16 * blocks / 2));
      const auto tokens = static_cast<int32_t>(random.Between(1, 16 * blocks - prompt + 1));
      const auto outputs = static_cast<int32_t>(random.Chance(0.3) ? random.Between(2, 8) : 1);
      const auto owner = static_cast<uint64_t>(random.Between(0, 2));
      if (outputs > 1) AddOutputs(outputs, prompt, std::min(tokens, 60), owner);
      if (outputs == 1) Add(prompt, std::min(tokens, 60), 0, owner);
    };
    for (int i = 0; i < 6; ++i) add();
    const Sequence* earliest = nullptr;
    for (int steps = 0; scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 100'000) << "a sequence starves";
      if (steps < 200 && random.Chance(0.1)) add();
      Plan();
      const std::vector<Sequence*> running = scheduler_->Running();
      if (earliest != nullptr) {
        const bool runs = std::find(running.begin(), running.end(), earliest) != running.end();
        ASSERT_TRUE(runs) << "sequence " << earliest->arrival << " was sent back";
      }
      Finish();
      earliest = scheduler_->running() > 0 ? scheduler_->Running().front() : nullptr;
    }
    preemptions += scheduler_->preemptions();
    RunAll();
  }
  EXPECT_GT(preemptions, 200u);
}

// Blocks for all: then nobody waits while another runs two more.
TEST_F(SchedulerSharesTest, NobodyWaitsBesideOneThatRunsTwoMore) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    Start({.max_sequences = static_cast<int32_t>(random.Between(2, 12))}, 1, 10'000);
    for (int move = 0; move < 60; ++move) {
      const auto outputs = static_cast<int32_t>(random.Chance(0.4) ? random.Between(2, 16) : 1);
      const auto owner = static_cast<uint64_t>(random.Between(0, 3));
      if (random.Chance(0.5))
        AddOutputs(outputs, 3, static_cast<int32_t>(random.Between(1, 90)), owner);
      Plan();
      std::map<uint64_t, int32_t> owners;
      std::map<uint64_t, int32_t> requests;
      const std::vector<Sequence*> running = scheduler_->Running();
      for (const Sequence* one : running) {
        ++owners[one->request.owner.low];
        ++requests[one->request.first_output.value()];
      }
      for (const auto& waits : sequences_) {
        if (Ended(*waits) || Runs(waits.get())) continue;
        const Request& request = waits->request;
        for (const Sequence* one : running) {
          const uint64_t other = one->request.owner.low;
          if (other != request.owner.low) {
            ASSERT_LT(owners[other], owners[request.owner.low] + kPlacesAhead);
          } else if (one->request.first_output != request.first_output) {
            ASSERT_LT(requests[one->request.first_output.value()],
                      requests[request.first_output.value()] + kPlacesAhead);
          }
        }
      }
      while (scheduler_->steps().size() > 0) Finish();
    }
    RunAll();
  }
}

// ---- rows

// Rows of each step that a request has, once all of its outputs generate.
TEST_F(SchedulerSharesTest, FurtherOutputsTakeTurnsBesideOthers) {
  for (const int32_t free_rows : {1, 8, 200}) {
    sequences_.clear();
    scheduler_ = std::make_unique<Scheduler>(SchedulerOptions());
    scheduler_->BeginEpoch(1, 1000);
    StepTimes times({StageOf(free_rows)});
    scheduler_->TimeBy(&times);
    const std::vector<Sequence*> outputs = AddOutputs(64, 3, 10'000);
    for (int step = 0; step < 80; ++step) Step();
    for (const Sequence* one : outputs) EXPECT_GE(one->output_tokens(), 78) << "alone";
    for (int i = 0; i < 3; ++i) Add(3, 10'000);
    for (int step = 0; step < 10; ++step) Step();
    std::vector<int32_t> before;
    for (const Sequence* one : outputs) before.push_back(one->total());
    const int32_t rows = free_rows == 1 ? 6 : free_rows == 8 ? 12 : 67;
    for (int step = 0; step < 122; ++step) {
      for (const v1::StepPlan& plan : Plan()) {
        EXPECT_EQ(plan.total_rows(), rows);
        std::set<uint64_t> scheduled;
        for (const v1::ScheduledSequence& one : plan.scheduled()) scheduled.insert(one.sequence());
        for (size_t i = 64; i < 67; ++i) {
          EXPECT_TRUE(scheduled.contains(sequences_[i]->stay.id.value())) << "in every step";
        }
      }
      Finish();
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_NEAR(outputs[i]->total() - before[i], 122 * (rows - 3) / 64, 2) << "each has its turn";
    }
  }
}

// The cost of rows that is not read from speeds, such as drawing their tokens, is learnt.
TEST_F(SchedulerSharesTest, FurtherOutputsHaveTheRowsThatStepsHaveHadTimeFor) {
  Start(SchedulerOptions(), 1, 1000);
  StepTimes times({StageOf(200)});
  scheduler_->TimeBy(&times);
  AddOutputs(64, 3, 10'000);
  for (int i = 0; i < 3; ++i) Add(3, 10'000);
  for (int step = 0; step < 80; ++step) Step();
  EXPECT_EQ(Plan().front().total_rows(), 67) << "by speeds alone";
  Finish();
  for (int round = 0; round < 3; ++round) {
    for (const double rows : {4, 8}) times.OnStep(0, {.rows = rows}, 0.2);
    for (const double rows : {16, 32, 64, 128}) times.OnStep(0, {.rows = rows}, 0.04 * rows);
  }
  EXPECT_EQ(Plan().front().total_rows(), 8);
}

}  // namespace
}  // namespace tutti::coordinator
