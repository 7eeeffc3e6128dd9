#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "worker/drafter.h"
#include "worker/drafter_testing.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// Draws anything, and looks at nothing of a batch but whether its rows have their places.
class AnyRunner : public StageRunner {
 public:
  AnyRunner(int32_t vocab_size, int32_t max_model_len, Random* random)
      : vocab_size_(vocab_size), max_model_len_(max_model_len), random_(random) {}

  ShardMemory memory() const override { return {}; }
  int64_t activation_row_bytes() const override { return 4; }
  int32_t vocab_size() const override { return vocab_size_; }
  DraftModel draft() override { return draft_model; }
  absl::Status Run(const Batch& batch, std::span<const std::byte>, std::span<std::byte>,
                   std::vector<v1::SampledToken>* sampled, const ProgressCallback&) override {
    EXPECT_LE(batch.rows, kDraftBatchTokens);
    EXPECT_EQ(batch.tokens.size(), static_cast<size_t>(batch.rows));
    EXPECT_EQ(batch.positions.size(), static_cast<size_t>(batch.rows));
    EXPECT_EQ(batch.row_begin.size(), batch.sequences.size() + 1);
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
      const size_t begin = batch.block_begin[s];
      const size_t end =
          s + 1 < batch.block_begin.size() ? batch.block_begin[s + 1] : batch.blocks.size();
      for (int32_t row = batch.row_begin[s]; row < batch.row_begin[s + 1]; ++row) {
        EXPECT_LT(batch.positions[row], max_model_len_);
        EXPECT_LT(begin + batch.positions[row] / kDraftBlockSize, end);
        EXPECT_TRUE(batch.tokens[row] >= 0 && batch.tokens[row] < vocab_size_);
      }
    }
    for (const SampleRow& row : batch.sample_rows) {
      const bool beyond = row.goes_on != nullptr && sampled->back().token() != row.guess;
      v1::SampledToken& token = sampled->emplace_back();
      token.set_sequence(row.sequence->id.value());
      token.set_position(batch.positions[row.row] + 1);
      token.set_token(beyond ? kTokenNotDrawn : Any());
    }
    rows += batch.rows;
    return absl::OkStatus();
  }

  DraftModel draft_model;
  int64_t rows = 0;

 private:
  TokenId Any() {
    if (random_->Chance(0.05)) return random_->Chance(0.5) ? kTokenOfNoNumbers : kLateToken;
    return static_cast<TokenId>(random_->Between(0, random_->Chance(0.9) ? 3 : vocab_size_ - 1));
  }

  const int32_t vocab_size_;
  const int32_t max_model_len_;
  Random* const random_;
};

// A coordinator that tells other tokens than were drawn, believes blocks to hold what they do not,
// and gives one to several sequences.
class AnyPlans : private StageOutbox {
 public:
  explicit AnyPlans(uint64_t seed) : random_(seed) {
    const auto length = static_cast<int32_t>(random_.Between(1, 80));
    draft_ = std::make_unique<AnyRunner>(random_.Between(2, 2 * kVocab), length, &random_);
    draft_model_ = {.runner = draft_.get(), .max_model_len = length};
  }

  void Run() {
    StageWorker worker(
        [this](const v1::AssignShard&, const ShardProgressCallback&) {
          auto runner = std::make_unique<AnyRunner>(kVocab, kDraftModelLen, &random_);
          runner->draft_model = draft_model_;
          return runner;
        },
        this, &clock_);
    v1::Frame frame = AssignFrame(1, 0, 1);
    frame.mutable_assign_shard()->set_num_blocks(kBlocks);
    frame.mutable_assign_shard()->set_max_batch_tokens(kDraftBatchTokens);
    frame.mutable_assign_shard()->set_max_model_len(kDraftModelLen);
    frame.mutable_assign_shard()->set_draft(true);
    worker.OnCoordinatorFrame(std::move(frame));
    for (uint64_t step = 1; step <= 60; ++step) {
      frame = v1::Frame();
      frame.set_epoch(1);
      Plan(step, frame.mutable_step_plan());
      const v1::StepPlan plan = frame.step_plan();
      worker.OnCoordinatorFrame(std::move(frame));
      ASSERT_TRUE(worker.RunOneStep([] {}));
      ASSERT_TRUE(told_.has_step_result()) << told_.ShortDebugString();
      for (const v1::DraftedTokens& drafted : told_.step_result().drafted()) {
        const auto asked = std::find_if(
            plan.scheduled().begin(), plan.scheduled().end(),
            [&](const auto& one) { return one.sequence() == drafted.sequence(); });
        ASSERT_NE(asked, plan.scheduled().end());
        EXPECT_LE(drafted.tokens_size(), asked->drafts());
        EXPECT_GT(drafted.position(), asked->first());
        for (const TokenId token : drafted.tokens()) EXPECT_TRUE(token >= 0 && token < kVocab);
        drafted_ += drafted.tokens_size();
      }
    }
  }
  int64_t drafted() const { return drafted_; }

 private:
  static constexpr int32_t kBlocks = 9;
  struct Known {
    std::vector<TokenId> tokens;
    int32_t computed = 0, told = 0, blocks = 0;
    bool is_new = true;
  };

  void ToCoordinator(v1::Frame frame) override { told_ = std::move(frame); }
  void ToNextStage(v1::Frame, transport::Payload) override {}
  TokenId Token() { return static_cast<TokenId>(random_.Between(0, 3)); }

  void Plan(uint64_t step, v1::StepPlan* plan) {
    plan->set_step(step);
    for (auto at = known_.begin(); at != known_.end();) {
      if (!random_.Chance(0.15)) {
        ++at;
        continue;
      }
      if (!at->second.is_new) plan->add_finished(at->first);
      at = known_.erase(at);
    }
    const auto id = static_cast<uint64_t>(random_.Between(1, 3));  // again, too
    if (known_.count(id) == 0) {
      Known& known = known_[id];
      for (int64_t i = random_.Between(1, 50); i > 0; --i) known.tokens.push_back(Token());
      const auto total = static_cast<int32_t>(known.tokens.size());
      if (random_.Chance(0.5)) known.computed = static_cast<int32_t>(random_.Between(0, total - 1));
    }
    int32_t left = kDraftBatchTokens;
    for (auto& [sequence, known] : known_) {
      if (left < 6 || (!known.is_new && random_.Chance(0.2))) continue;
      left -= Schedule(sequence, left, &known, plan);
    }
    plan->set_total_rows(kDraftBatchTokens - left);
  }

  int32_t Schedule(uint64_t id, int32_t left, Known* known, v1::StepPlan* plan) {
    v1::ScheduledSequence* const scheduled = plan->add_scheduled();
    scheduled->set_sequence(id);
    if (std::exchange(known->is_new, false)) {
      v1::NewSequence* const added = plan->add_new_sequences();
      added->set_sequence(id);
      added->mutable_tokens()->Add(known->tokens.begin(), known->tokens.end());
      added->set_prompt_tokens(static_cast<int32_t>(random_.Between(1, known->tokens.size())));
      added->set_cached_tokens(known->computed);
    } else {
      for (int64_t i = known->computed == std::ssize(known->tokens) ? 1 : 0; i > 0; --i) {
        known->tokens.push_back(Token());
        scheduled->add_new_tokens(known->tokens.back());
      }
    }
    const auto total = static_cast<int32_t>(known->tokens.size());
    const int32_t count = std::min(left - 4, total - known->computed);
    scheduled->set_first(known->computed);
    known->computed += count;
    const bool sample = known->computed == total;
    for (int64_t i = sample ? random_.Between(0, 3) : 0; i > 0; --i) {
      scheduled->add_guesses(Token());
    }
    scheduled->set_count(count + scheduled->guesses_size());
    scheduled->set_sample(sample);
    const int32_t slots = known->computed + scheduled->guesses_size();
    int64_t blocks = (slots + kDraftBlockSize - 1) / kDraftBlockSize + random_.Between(0, 1);
    for (; known->blocks < blocks; ++known->blocks) {
      scheduled->add_new_blocks(static_cast<int32_t>(random_.Between(0, kBlocks - 1)));
    }
    scheduled->set_expected_tokens(total);
    scheduled->set_expected_blocks(known->blocks);
    if (random_.Chance(0.8)) {
      scheduled->set_drafts(static_cast<int32_t>(random_.Between(0, kPlanGuessesMax)));
    }
    return scheduled->count();
  }

  Random random_;
  ManualClock clock_;
  std::unique_ptr<AnyRunner> draft_;
  StageRunner::DraftModel draft_model_;
  std::map<uint64_t, Known> known_;
  v1::Frame told_;
  int64_t drafted_ = 0;
};

TEST(DrafterHostileTest, WhateverPlansSayRowsHaveTheirPlaces) {
  int64_t drafted = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    AnyPlans plans(seed);
    plans.Run();
    if (testing::Test::HasFailure()) return;
    drafted += plans.drafted();
  }
  EXPECT_GT(drafted, 3000);
}

}  // namespace
}  // namespace tutti::worker
