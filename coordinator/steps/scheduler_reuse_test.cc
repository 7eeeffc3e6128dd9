// The blocks that the scheduler shares between sequences. The plans themselves:
// tests/scenarios/prefix_*.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"

namespace tutti::coordinator {
namespace {

constexpr int32_t kReusedBlock = 16;
constexpr PipelineId kPipeline(3);

class SchedulerReuseTest : public SchedulerTest {
 protected:
  SchedulerReuseTest() : directory_({.key = {1, 2}, .block_size = kReusedBlock}) {}

  void Start(const SchedulerOptions& options, int32_t stages, int32_t blocks) {
    scheduler_ = std::make_unique<Scheduler>(options, &directory_, kPipeline);
    scheduler_->BeginEpoch(stages, blocks);
  }

  Sequence* Add(const std::vector<TokenId>& prompt, int32_t max_tokens, uint64_t tenant = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = ++arrivals_;
    sequence->request.id = RequestId(sequence->arrival);
    sequence->request.max_tokens = max_tokens;
    sequence->request.cache_domain = {tenant, 0};
    sequence->prompt_tokens = static_cast<int32_t>(prompt.size());
    sequence->tokens = prompt;
    sequences_.push_back(std::move(sequence));
    scheduler_->Enqueue(sequences_.back().get());
    return sequences_.back().get();
  }

  // Plans as long as more is wanted; the rows of each plan.
  std::vector<int32_t> Plan() {
    std::vector<int32_t> rows;
    for (v1::StepPlan plan; scheduler_->Plan(Instant(), &plan); plan = v1::StepPlan()) {
      rows.push_back(plan.total_rows());
    }
    scheduler_->CheckLedger();
    return rows;
  }

  void RunAll() {
    while (scheduler_->running() + scheduler_->waiting() > 0) {
      Plan();
      ASSERT_GT(scheduler_->steps().size(), 0u) << "no sequence gets on";
      Finish();
    }
  }

  static std::vector<TokenId> Tokens(int32_t count, TokenId token = 7) {
    return std::vector<TokenId>(count, token);
  }

  KvDirectory directory_;
  uint64_t arrivals_ = 0;
};

TEST_F(SchedulerReuseTest, AtLeastTheLastTokenIsComputed) {
  Start({}, 1, 20);
  for (const auto& [prompt, cached] : std::vector<std::pair<int32_t, int32_t>>{
           {64, 0}, {64, 48}, {65, 64}, {63, 48}, {17, 16}, {16, 0}, {1, 0}}) {
    Sequence* const sequence = Add(Tokens(prompt), 1);
    RunAll();
    EXPECT_EQ(sequence->cached_tokens, cached) << prompt;
    EXPECT_EQ(sequence->output_tokens(), 1);
  }
  EXPECT_EQ(scheduler_->cache().counters().lookup_tokens, 64u + 64 + 65 + 63 + 17 + 16 + 1);
  EXPECT_EQ(scheduler_->cache().counters().hit_tokens, 48u + 64 + 48 + 16);
}

TEST_F(SchedulerReuseTest, ManyOutputsShareOnePrompt) {
  for (const int32_t stages : {1, 2, 4}) {
    Start({.max_batch_tokens = 256, .chunk_tokens = 32}, stages, 40);
    for (int i = 0; i < 8; ++i) Add(Tokens(16 * 20 + 5), 4);
    int32_t rows = 0;
    int32_t most = 0;
    while (scheduler_->running() + scheduler_->waiting() > 0) {
      for (const int32_t planned : Plan()) rows += planned;
      most = std::max(most, scheduler_->blocks_in_use());
      Finish();
    }
    EXPECT_EQ(rows, 16 * 20 + 8 * (5 + 3)) << "the prompt's full blocks are computed once";
    EXPECT_EQ(most, 20 + 8) << "and held once";
    EXPECT_EQ(scheduler_->preemptions(), 0u);
    scheduler_->EndEpoch();
  }
}

// Held back for the blocks it will find, not for the rest of another's long prompt.
TEST_F(SchedulerReuseTest, GoesOnWhenWhatItSharesIsThere) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 16}, 1, 100);
  std::vector<TokenId> prompt = Tokens(160);
  Add(prompt, 1);
  Plan();
  std::fill(prompt.begin() + 32, prompt.end(), 9);
  prompt.resize(50);
  Sequence* const second = Add(prompt, 1);
  Finish();
  Plan();
  EXPECT_EQ(second->stay.planned, 0) << "one of the two blocks it shares is computed";
  Finish();
  Plan();
  EXPECT_EQ(second->cached_tokens, 32);
  RunAll();
}

TEST_F(SchedulerReuseTest, NobodyWaitsForAnotherTenantOrForWhoLeft) {
  Start({.max_batch_tokens = 64, .chunk_tokens = 16}, 1, 100);
  Sequence* const first = Add(Tokens(160), 1);
  Plan();
  Sequence* const stranger = Add(Tokens(160), 1, 2);
  Sequence* const twin = Add(Tokens(160), 1);
  Finish();
  Plan();
  EXPECT_GT(stranger->stay.planned, 0);
  EXPECT_EQ(twin->stay.planned, 0);
  scheduler_->Remove(first);
  Finish();
  Plan();
  EXPECT_GT(twin->stay.planned, 0);
  EXPECT_EQ(twin->cached_tokens, 16) << "the part computed until then";
  RunAll();
}

TEST_F(SchedulerReuseTest, NothingOutlivesTheEpoch) {
  Start({}, 1, 20);
  Add(Tokens(64), 1);
  RunAll();
  EXPECT_EQ(scheduler_->cache().blocks_cached(), 4);
  EXPECT_EQ(directory_.published(), 4);
  scheduler_->EndEpoch();
  EXPECT_EQ(directory_.published(), 0);
  scheduler_->BeginEpoch(1, 20);
  Sequence* const again = Add(Tokens(64), 1);
  RunAll();
  EXPECT_EQ(again->cached_tokens, 0);
}

TEST_F(SchedulerReuseTest, WithoutDirectoryNothingIsShared) {
  scheduler_ = std::make_unique<Scheduler>(SchedulerOptions(), nullptr, kPipeline);
  scheduler_->BeginEpoch(1, 20);
  Add(Tokens(40), 1);
  RunAll();
  Sequence* const again = Add(Tokens(40), 1);
  RunAll();
  EXPECT_EQ(again->cached_tokens, 0);
  EXPECT_EQ(scheduler_->cache().blocks_cached(), 0);
}

// Everything at once in pools down to what one request needs: twins, conversations, tenants,
// cancellations. No sequence starves, every ledger is even, and the tokens are those asked for.
TEST_F(SchedulerReuseTest, TenThousandRequestsLeaveNothingBehind) {
  Random random(5);
  int32_t done = 0;
  for (int round = 0; done < 10'000; ++round) {
    const auto blocks = static_cast<int32_t>(random.Between(6, 24));
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    Start({.max_batch_tokens = static_cast<int32_t>(random.Between(8, 64)),
           .chunk_tokens = 8,
           .max_sequences = static_cast<int32_t>(random.Between(1, 8))},
          stages, blocks);
    sequences_.clear();
    std::vector<Sequence*> live;
    for (int i = 0; i < 500; ++i, ++done) {
      std::vector<TokenId> prompt =
          Tokens(static_cast<int32_t>(random.Between(1, 40)), random.Chance(0.8) ? 1 : 2);
      prompt.push_back(static_cast<TokenId>(random.Between(1, 3)));
      live.push_back(Add(prompt, static_cast<int32_t>(random.Between(1, 40)),
                         static_cast<uint64_t>(random.Between(0, 1))));
      for (int64_t steps = random.Between(0, 4); steps > 0; --steps) {
        Plan();
        if (scheduler_->steps().size() > 0) Finish();
      }
      const size_t index = random.Between(0, live.size() - 1);
      Sequence* const leaves = live[index];
      live.erase(live.begin() + static_cast<int64_t>(index));
      const bool ended = leaves->output_tokens() == leaves->request.max_tokens;
      if (!ended && random.Chance(0.7)) scheduler_->Remove(leaves);
    }
    RunAll();
    Plan();
    EXPECT_EQ(scheduler_->blocks_in_use(), 0);
    EXPECT_EQ(scheduler_->blocks_total(), blocks);
    EXPECT_EQ(directory_.published(), scheduler_->cache().blocks_cached());
    EXPECT_EQ(scheduler_->running() + scheduler_->waiting(), 0);
    scheduler_->EndEpoch();
    EXPECT_EQ(directory_.published(), 0);
    EXPECT_EQ(directory_.prefixes(), 0);
  }
}

}  // namespace
}  // namespace tutti::coordinator
