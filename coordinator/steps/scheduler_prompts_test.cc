// Rows of prompts beside sequences that generate, and the size of the plans in which prompts begin.
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"
#include "transport/limits.h"

namespace tutti::coordinator {
namespace {

class SchedulerPromptsTest : public SchedulerTest {
 protected:
  // So many sequences generate, without end, on a pipeline of so many stages.
  void Generate(int32_t sequences, int32_t stages, int32_t batch) {
    sequences_.clear();
    Start({.max_batch_tokens = batch, .chunk_tokens = batch, .max_sequences = sequences + 2},
          stages,
          /*blocks=*/4000);
    for (int32_t i = 0; i < sequences; ++i) Add(1, 10'000);
    for (int step = 0; step < 20 * sequences; ++step) {
      Plan();
      Finish();
    }
  }
};

// As many that generate as steps have rows, or more: a prompt begins and ends within a bound.
TEST_F(SchedulerPromptsTest, APromptDoesNotStarve) {
  constexpr int32_t kPrompt = 30;
  for (const int32_t stages : {1, 2, 3}) {
    for (const int32_t batch : {1, 2, 3, 4, 5, 8, 16}) {
      for (const int32_t more : {0, 1, batch * stages}) {
        Generate(batch * stages + more, stages, batch);
        const Sequence* const newcomer = Add(kPrompt, 5);
        int32_t steps = 0;
        int32_t first = 0;  // step with a row of the prompt
        while (newcomer->output_tokens() == 0) {
          for (const v1::StepPlan& plan : Plan()) {
            ++steps;
            if (first == 0 && newcomer->stay.planned > 0) first = steps;
            EXPECT_LE(plan.total_rows(), batch);
          }
          ASSERT_LT(steps, 1000) << stages << " stages, " << batch << " rows, " << more << " more";
          Finish();
        }
        const int32_t every = (kRowsPerPromptRow + batch - 1) / batch;
        EXPECT_LE(first, every) << stages << " stages, " << batch << " rows, " << more << " more";
        EXPECT_LE(steps, (kPrompt * kRowsPerPromptRow + batch - 1) / batch + every + 6 * stages)
            << stages << " stages, " << batch << " rows, " << more << " more";
      }
    }
  }
}

TEST_F(SchedulerPromptsTest, GeneratingGoesOnBesidePrompts) {
  Generate(8, 1, 8);
  Add(4000, 5);
  int32_t rows = 0;
  for (int step = 0; step < 100; ++step) {
    for (const v1::StepPlan& plan : Plan()) rows += plan.scheduled_size() - 1;
    Finish();
  }
  EXPECT_EQ(rows, 100 * 6) << "a quarter of the rows is the prompt's";
}

TEST_F(SchedulerPromptsTest, WithoutPromptsAllRowsGenerate) {
  Generate(12, 1, 8);
  for (int step = 0; step < 20; ++step) {
    for (const v1::StepPlan& plan : Plan()) EXPECT_EQ(plan.scheduled_size(), 8);
    Finish();
  }
}

// ---- the size of plans

v1::SequenceSampling LargestSampling(int64_t biases) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_top_p(0.5f);
  sampling.set_min_p(0.5f);
  sampling.set_repetition_penalty(1);
  sampling.set_presence_penalty(1);
  sampling.set_frequency_penalty(1);
  sampling.set_top_k(1 << 30);
  sampling.set_seed(~uint64_t{0});
  sampling.set_logprobs(true);
  sampling.set_top_logprobs(20);
  for (int64_t i = 0; i < biases; ++i) {
    sampling.add_bias_ids((1 << 21) - 1);
    sampling.add_bias_values(1.0f);
    sampling.add_end_ids((1 << 21) - 1);
    sampling.add_allowed_ids((1 << 21) - 1);
    sampling.add_banned()->mutable_ids()->Resize(3, (1 << 21) - 1);
  }
  sampling.set_min_tokens(~0u);
  return sampling;
}

TEST_F(SchedulerPromptsTest, NoPlanIsLargerThanItsBound) {
  Random random(7);
  double fullest = 0;
  for (int round = 0; round < 40; ++round) {
    sequences_.clear();
    const auto bytes_max = random.Between(4000, 9000);
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    Start({.max_batch_tokens = 64,
           .chunk_tokens = 16,
           .max_sequences = 12,
           .plan_bytes_max = bytes_max},
          stages, 400);
    for (int i = 0; i < 30; ++i) {
      Add(static_cast<int32_t>(random.Between(1, 300)), static_cast<int32_t>(random.Between(1, 9)));
      Sequence& added = *sequences_.back();
      for (TokenId& token : added.tokens) token = 0x7fffffff;
      added.request.sampling = LargestSampling(random.Between(0, 20));
    }
    while (scheduler_->running() + scheduler_->waiting() > 0) {
      for (v1::StepPlan& plan : Plan()) {
        v1::Frame frame;
        frame.set_epoch(~uint64_t{0});
        frame.set_checksum(1);
        *frame.mutable_step_plan() = std::move(plan);
        const auto bytes = static_cast<int64_t>(frame.ByteSizeLong());
        ASSERT_LE(bytes, bytes_max);
        fullest = std::max(fullest, static_cast<double>(bytes) / static_cast<double>(bytes_max));
      }
      ASSERT_GT(scheduler_->steps().size(), 0u) << "no sequence gets on";
      Finish();
    }
  }
  EXPECT_GT(fullest, 0.6);
}

// The bound is no looser than it must be, and no sequence exceeds it.
TEST_F(SchedulerPromptsTest, ASequencesBytesAreKnownBefore) {
  const PlanSizeOptions options{.token_bytes = TokenBytes(151'936)};
  EXPECT_EQ(options.token_bytes, 3);
  for (const int32_t tokens : {1, 16, 1000, 131'072}) {
    v1::StepPlan plan;
    v1::NewSequence* const added = plan.add_new_sequences();
    added->set_sequence(~uint64_t{0});
    added->mutable_tokens()->Resize(tokens, 151'935);
    added->set_prompt_tokens(tokens);
    added->set_cached_tokens(tokens);
    *added->mutable_sampling() = LargestSampling(1024);
    v1::ScheduledSequence* const scheduled = plan.add_scheduled();
    scheduled->set_sequence(~uint64_t{0});
    scheduled->mutable_new_blocks()->Resize((tokens + 15) / 16, 0x7fffffff);
    scheduled->set_first(0x7fffffff);
    scheduled->set_count(0x7fffffff);
    scheduled->set_expected_tokens(0x7fffffff);
    scheduled->set_expected_blocks(0x7fffffff);
    scheduled->set_sample(true);
    const auto bytes = static_cast<int64_t>(plan.ByteSizeLong());
    const int64_t bound = NewSequenceBytes(options, tokens, added->sampling());
    EXPECT_LE(bytes, bound);
    EXPECT_LE(bound, bytes + 100);
  }
}

// Fields of a message as links count them: nested ones, and a packed list once.
int64_t FieldsOf(const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &set);
  int64_t fields = 0;
  for (const auto* field : set) {
    if (field->message_type() == nullptr) {
      ++fields;
    } else if (!field->is_repeated()) {
      fields += 1 + FieldsOf(reflection.GetMessage(message, field));
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        fields += 1 + FieldsOf(reflection.GetRepeatedMessage(message, field, i));
      }
    }
  }
  return fields;
}

// Sequences whose requests have as many bad words as it may have begin together.
TEST_F(SchedulerPromptsTest, NoPlanHasMoreFieldsThanALinkTakes) {
  constexpr int kSequences = 600;
  Start({.max_batch_tokens = 4096, .chunk_tokens = 16, .max_sequences = kSequences}, 1, 1000);
  for (int i = 0; i < kSequences; ++i) {
    Add(2, 1);
    sequences_.back()->request.sampling = LargestSampling(256);
  }
  int64_t plans = 0;
  int64_t most = 0;
  while (scheduler_->running() + scheduler_->waiting() > 0) {
    for (const v1::StepPlan& plan : Plan()) {
      ++plans;
      most = std::max(most, FieldsOf(plan));
    }
    ASSERT_GT(scheduler_->steps().size(), 0u) << "no sequence gets on";
    Finish();
  }
  EXPECT_GT(plans, 1);
  EXPECT_LT(most, transport::kFrameFieldsMax);
  EXPECT_GT(most, transport::kFrameFieldsMax * 9 / 10);
}

// The longest context of any family is a tenth of what fits with the most that flags allow.
TEST_F(SchedulerPromptsTest, ASequenceOfAMillionTokensFitsIntoAPlan) {
  PlanSizeOptions options{.token_bytes = TokenBytes(1 << 21)};
  EXPECT_LE(NewSequenceBytes(options, 1 << 20, LargestSampling(1024)), PlanBytesForNew(options));
  options.max_batch_tokens = options.max_sequences = 65536;
  EXPECT_LE(NewSequenceBytes(options, 1 << 20, LargestSampling(1024)), PlanBytesForNew(options));
}

}  // namespace
}  // namespace tutti::coordinator
