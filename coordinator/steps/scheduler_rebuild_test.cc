// Stages that survive a loss keep their K/V: what the others lack is computed first, and by them
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {
namespace {

constexpr int32_t kRebuiltBlock = 16;
constexpr int32_t kBlocks = 32;
const std::string kAllKept(4, '\xff');

class SchedulerRebuildTest : public SchedulerTest {
 protected:
  SchedulerRebuildTest() : directory_({.key = {1, 2}, .block_size = kRebuiltBlock}) {}

  void Start(SchedulerOptions options, int32_t stages = 3) {
    options.partial_recompute = true;
    scheduler_ = std::make_unique<Scheduler>(options, &directory_, PipelineId(0));
    scheduler_->BeginEpoch(stages, kBlocks);
  }

  Sequence* Add(const std::vector<TokenId>& prompt, int32_t max_tokens) {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = sequences_.size() + 1;
    sequence->request.id = RequestId(sequence->arrival);
    sequence->request.max_tokens = max_tokens;
    sequence->prompt_tokens = static_cast<int32_t>(prompt.size());
    sequence->tokens = prompt;
    sequences_.push_back(std::move(sequence));
    scheduler_->Enqueue(sequences_.back().get());
    return sequences_.back().get();
  }
  static std::vector<TokenId> Tokens(int32_t count, TokenId first = 7) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  void FinishAll() {
    while (scheduler_->steps().size() > 0) Finish();
  }
  void LoseAndGoOn(KvSurvival survival) {
    scheduler_->EndEpoch();
    EXPECT_TRUE(scheduler_->FreeOfLastEpoch(kBlocks).has_value());
    scheduler_->BeginEpoch(survival.num_stages, kBlocks, &survival);
  }
  static KvSurvival Lost(StageSet lost, bool kept = true) {
    return {.num_stages = 3,
            .lost = lost,
            .kept_rows = {kept ? kAllKept : "", kept ? kAllKept : "", ""}};
  }

  KvDirectory directory_;
};

TEST_F(SchedulerRebuildTest, FullBlocksAreRebuiltInTheLostStageAndTheRestIsComputed) {
  Start({});
  Sequence* const sequence = Add(Tokens(40), 20);
  Plan();
  FinishAll();
  LoseAndGoOn(Lost(0b010));
  const std::vector<v1::StepPlan> plans = Plan();
  ASSERT_GE(plans.size(), 2u);
  const v1::StepPlan& rebuild = plans[0];
  EXPECT_EQ(rebuild.rebuild().first_stage(), 1);
  EXPECT_EQ(rebuild.rebuild().last_stage(), 1);
  EXPECT_EQ(rebuild.total_rows(), 32);
  EXPECT_EQ(rebuild.new_sequences(0).prompt_tokens(), 40);  // its positions turn as they did
  EXPECT_FALSE(rebuild.scheduled(0).sample());
  EXPECT_EQ(rebuild.scheduled(0).new_blocks_size(), 2);
  const v1::StepPlan& rest = plans[1];
  EXPECT_FALSE(rest.has_rebuild());
  EXPECT_THAT(rest.finished(), testing::ElementsAre(rebuild.new_sequences(0).sequence()));
  EXPECT_EQ(rest.new_sequences(0).cached_tokens(), 32);
  EXPECT_EQ(rest.scheduled(0).first(), 32);
  EXPECT_EQ(rest.scheduled(0).count(), 9);
  EXPECT_TRUE(rest.scheduled(0).sample());
  EXPECT_EQ(sequence->stay.rebuilds, 1);
  FinishAll();
  EXPECT_EQ(sequence->stay.rebuilds, 0);
  EXPECT_EQ(scheduler_->rebuilt_tokens(), 32u);
}

TEST_F(SchedulerRebuildTest, StagesBeforeTheLostOneComputeToWhereRowsAreKept) {
  Start({});
  Add(Tokens(40), 20);
  Plan();
  FinishAll();
  LoseAndGoOn(Lost(0b100, /*kept=*/false));
  const v1::StepPlan plan = Plan()[0];
  EXPECT_EQ(plan.rebuild().first_stage(), 0);
  EXPECT_EQ(plan.rebuild().last_stage(), 2);
}

TEST_F(SchedulerRebuildTest, ALongPrefixTakesSeveralSteps) {
  Start({.max_batch_tokens = 20, .chunk_tokens = 20});
  Add(Tokens(64), 4);
  while (scheduler_->steps().done() < 4) {
    Plan();
    Finish();
  }
  FinishAll();
  LoseAndGoOn(Lost(0b001));
  std::vector<std::pair<int32_t, int32_t>> parts;
  while (parts.empty() || scheduler_->steps().size() > 0) {
    for (const v1::StepPlan& plan : Plan()) {
      if (!plan.has_rebuild()) continue;
      parts.emplace_back(plan.scheduled(0).first(), plan.scheduled(0).count());
    }
    Finish();
  }
  EXPECT_THAT(parts, testing::ElementsAre(std::make_pair(0, 20), std::make_pair(20, 20),
                                          std::make_pair(40, 20), std::make_pair(60, 4)));
}

TEST_F(SchedulerRebuildTest, SharedBlocksAreRebuiltOnce) {
  Start({});
  const std::vector<TokenId> shared = Tokens(33);
  Add(shared, 20);
  Plan();
  FinishAll();
  std::vector<TokenId> longer = Tokens(64);
  Add(longer, 20);
  Plan();
  FinishAll();
  LoseAndGoOn(Lost(0b010));
  const std::vector<v1::StepPlan> plans = Plan();
  ASSERT_GE(plans.size(), 2u);
  // Both begin with two blocks; the second has two more, which come after these.
  EXPECT_EQ(plans[0].total_rows(), 32);
  EXPECT_EQ(plans[0].scheduled_size(), 1);
  EXPECT_TRUE(plans[1].has_rebuild());
  EXPECT_EQ(plans[1].scheduled(0).first(), 32);
  EXPECT_EQ(plans[1].scheduled(0).count(), 32);
}

TEST_F(SchedulerRebuildTest, WhatALossInterruptedIsRebuiltAgain) {
  Start({});
  Sequence* const sequence = Add(Tokens(40), 20);
  Plan();
  FinishAll();
  LoseAndGoOn(Lost(0b010));
  EXPECT_EQ(Plan()[0].total_rows(), 32);
  EXPECT_EQ(sequence->stay.rebuilds, 1);
  // Stage 0 goes before the result has come.
  LoseAndGoOn(Lost(0b001));
  const std::vector<v1::StepPlan> plans = Plan();
  ASSERT_GE(plans.size(), 2u);
  EXPECT_EQ(plans[0].rebuild().last_stage(), 1);
  EXPECT_EQ(plans[0].total_rows(), 32);
  EXPECT_EQ(plans[1].rebuild().last_stage(), 0);
  EXPECT_EQ(plans[1].total_rows(), 32);
  FinishAll();
  LoseAndGoOn(Lost(0));
  EXPECT_FALSE(Plan()[0].has_rebuild());
}

TEST_F(SchedulerRebuildTest, WhatIsNotPublishedIsNotBelieved) {
  Start({});
  Sequence* const sequence = Add(Tokens(40), 20);
  ASSERT_FALSE(Plan().empty());  // its result never comes
  LoseAndGoOn(Lost(0b010));
  const v1::StepPlan plan = Plan()[0];
  EXPECT_FALSE(plan.has_rebuild());
  EXPECT_EQ(plan.new_sequences(0).cached_tokens(), 0);
  EXPECT_EQ(sequence->stay.computed, 0);
}

TEST_F(SchedulerRebuildTest, ASequenceThatLeavesLeavesWhatOthersNeed) {
  Start({.max_batch_tokens = 20, .chunk_tokens = 20});
  Add(Tokens(64), 4);
  Sequence* const first = sequences_.back().get();
  while (scheduler_->steps().done() < 4) {
    Plan();
    Finish();
  }
  FinishAll();
  Sequence* const second = Add(Tokens(60), 4);
  LoseAndGoOn(Lost(0b001));
  v1::StepPlan plan;
  ASSERT_TRUE(scheduler_->Plan(Instant(), &plan));
  EXPECT_EQ(plan.scheduled(0).count(), 20);
  scheduler_->Remove(first);
  plan.Clear();
  ASSERT_TRUE(scheduler_->Plan(Instant(), &plan));
  ASSERT_TRUE(plan.has_rebuild());
  EXPECT_EQ(plan.scheduled(0).first(), 20);
  EXPECT_GT(second->stay.published, 0);
  scheduler_->CheckLedger();
}

TEST_F(SchedulerRebuildTest, AnotherLayoutBeginsAnew) {
  Start({});
  Add(Tokens(40), 20);
  Plan();
  FinishAll();
  scheduler_->EndEpoch();
  EXPECT_FALSE(scheduler_->FreeOfLastEpoch(kBlocks - 1).has_value());
  const KvSurvival survival = Lost(0);
  scheduler_->BeginEpoch(3, kBlocks - 1, &survival);
  EXPECT_EQ(Plan()[0].new_sequences(0).cached_tokens(), 0);
  EXPECT_EQ(directory_.published(), 0);
}

}  // namespace
}  // namespace tutti::coordinator
