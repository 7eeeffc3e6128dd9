#include "worker/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/batch.h"
#include "worker/limits.h"
#include "worker/sequence_table_testing.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SequenceTable, FollowsASequenceFromPromptToEnd) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table.Apply(FirstPlan()).ok());
  const SequenceState* state = table.Find(SequenceId(7));
  ASSERT_NE(state, nullptr);
  EXPECT_THAT(state->tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(state->blocks, ElementsAre(5));
  EXPECT_EQ(state->computed, 3);
  ASSERT_TRUE(table
                  .Apply(PlanOf(R"(
    step: 2 total_rows: 1
    scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 sample: true
                expected_tokens: 4 expected_blocks: 1 })"))
                  .ok());
  EXPECT_THAT(state->tokens, ElementsAre(1, 2, 3, 9));
  EXPECT_EQ(state->computed, 4);
  ASSERT_TRUE(table.Apply(PlanOf("step: 3 finished: 7")).ok());
  EXPECT_EQ(table.Find(SequenceId(7)), nullptr);
}

TEST(SequenceTable, TheLastRowMayBeComputedAgain) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table.Apply(FirstPlan()).ok());
  const std::string again = R"(
    step: 2 total_rows: 1
    scheduled { sequence: 7 first: 2 count: 1 sample: true again: true
                expected_tokens: 3 expected_blocks: 1 })";
  ASSERT_TRUE(table.Apply(PlanOf(again)).ok());
  const SequenceState* const state = table.Find(SequenceId(7));
  EXPECT_EQ(state->computed, 3);
  Batch batch;
  BuildBatch(PlanOf(again), &table, &batch);
  EXPECT_THAT(batch.positions, ElementsAre(2));
  EXPECT_THAT(batch.tokens, ElementsAre(3));
  ASSERT_EQ(batch.sample_rows.size(), 1u);
  // Nothing but the last row, and only where all were computed.
  for (const std::string wrong :
       {"first: 1 count: 1 sample: true again: true expected_tokens: 3",
        "first: 2 count: 1 again: true expected_tokens: 3",
        "first: 1 count: 2 sample: true again: true expected_tokens: 3",
        "first: 2 count: 1 sample: true expected_tokens: 3",
        "first: 3 count: 1 new_tokens: 4 sample: true again: true expected_tokens: 4"}) {
    SequenceTable other(kSmallTable);
    ASSERT_TRUE(other.Apply(FirstPlan()).ok());
    const v1::StepPlan plan = PlanOf(
        absl::StrCat("step: 2 total_rows: ", wrong.find("count: 2") == std::string::npos ? 1 : 2,
                     " scheduled { sequence: 7 ", wrong, " expected_blocks: 1 }"));
    EXPECT_FALSE(other.Apply(plan).ok()) << wrong;
  }
}

TEST(SequenceTable, ASequenceBeginsAfterItsCachedPrefix) {
  SequenceTable table(kSmallTable);
  EXPECT_TRUE(table
                  .Apply(PlanOf(R"(
    step: 1 total_rows: 1
    new_sequences { sequence: 7 tokens: [1, 2, 3] prompt_tokens: 3 cached_tokens: 2 }
    scheduled { sequence: 7 first: 2 count: 1 new_blocks: 5
                expected_tokens: 3 expected_blocks: 1 })"))
                  .ok());
  EXPECT_EQ(table.Find(SequenceId(7))->computed, 3);
}

TEST(SequenceTable, FinishesBeforeItAdds) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table.Apply(FirstPlan()).ok());
  // Preempted and scheduled again within one step: everything is computed once more.
  EXPECT_TRUE(table
                  .Apply(PlanOf(R"(
    step: 2 total_rows: 2 finished: 7
    new_sequences { sequence: 7 tokens: [1, 2, 3, 4] prompt_tokens: 3 }
    scheduled { sequence: 7 first: 0 count: 2 new_blocks: 1
                expected_tokens: 4 expected_blocks: 1 })"))
                  .ok());
  EXPECT_EQ(table.Find(SequenceId(7))->computed, 2);
}

TEST(SequenceTable, CountsTokensOnlyForPenalties) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table
                  .Apply(PlanOf(R"(
    step: 1
    new_sequences { sequence: 1 tokens: [4, 5, 4, 6] prompt_tokens: 2 }
    new_sequences { sequence: 2 tokens: [4, 5, 4, 6] prompt_tokens: 2
                    sampling { presence_penalty: 0.5 repetition_penalty: 1 } })"))
                  .ok());
  EXPECT_TRUE(table.Find(SequenceId(1))->counts.empty());
  const auto& counts = table.Find(SequenceId(2))->counts;
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_TRUE(counts.at(4).in_prompt);
  EXPECT_EQ(counts.at(4).in_output, 1);
  EXPECT_TRUE(counts.at(5).in_prompt);
  EXPECT_EQ(counts.at(5).in_output, 0);
  EXPECT_FALSE(counts.at(6).in_prompt);
  EXPECT_EQ(counts.at(6).in_output, 1);
}

struct Contradiction {
  std::string name;
  std::string plan;  // applied after FirstPlan
  absl::StatusCode code;
  std::string says;
};

class SequenceTableContradiction : public ::testing::TestWithParam<Contradiction> {};

TEST_P(SequenceTableContradiction, IsRefusedByName) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table.Apply(FirstPlan()).ok());
  const absl::Status status = table.Apply(PlanOf(GetParam().plan));
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

const Contradiction kContradictions[] = {
    {"ExpectedTokens",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 "
     "expected_tokens: 5 expected_blocks: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 7: has 4 tokens, plan expects 5"},
    {"ExpectedBlocks",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 "
     "expected_tokens: 4 expected_blocks: 2 }",
     absl::StatusCode::kFailedPrecondition, "sequence 7: has 1 blocks, plan expects 2"},
    {"First",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 2 count: 1 new_tokens: 9 "
     "expected_tokens: 4 expected_blocks: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 7: is computed to 3, plan goes on at 2"},
    {"NegativeFirst",
     "step: 2 total_rows: 1 new_sequences { sequence: 8 tokens: 1 prompt_tokens: 1 } "
     "scheduled { sequence: 8 first: -1 count: 1 new_blocks: 0 expected_tokens: 1 "
     "expected_blocks: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 8: is computed to 0, plan goes on at -1"},
    {"NotAfterTheCachedPrefix",
     "step: 2 total_rows: 1 new_sequences { sequence: 8 tokens: [1, 2, 3] prompt_tokens: 3 "
     "cached_tokens: 2 } scheduled { sequence: 8 first: 1 count: 1 new_blocks: 0 "
     "expected_tokens: 3 expected_blocks: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 8: is computed to 2, plan goes on at 1"},
    {"EverythingCached",
     "step: 2 new_sequences { sequence: 8 tokens: [1, 2] prompt_tokens: 2 cached_tokens: 2 }",
     absl::StatusCode::kInvalidArgument, "sequence 8: cached_tokens 2 of 2 tokens"},
    {"NegativeCached",
     "step: 2 new_sequences { sequence: 8 tokens: [1, 2] prompt_tokens: 2 cached_tokens: -1 }",
     absl::StatusCode::kInvalidArgument, "sequence 8: cached_tokens -1 of 2 tokens"},
    {"BeyondTokens",
     "step: 2 total_rows: 2 scheduled { sequence: 7 first: 3 count: 2 new_tokens: 9 "
     "expected_tokens: 4 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "computes 2 tokens from 3 but has 4"},
    {"BeyondBlocks",
     "step: 2 total_rows: 14 scheduled { sequence: 7 first: 3 count: 14 new_tokens: "
     "[9,9,9,9,9,9,9,9,9,9,9,9,9,9] expected_tokens: 17 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "computes up to position 17 but has 1 blocks of 16"},
    {"SampleTooEarly",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: [9, 9] "
     "sample: true expected_tokens: 5 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "samples after position 4 but has 5 tokens"},
    {"UnknownScheduled", "step: 2 total_rows: 1 scheduled { sequence: 9 first: 0 count: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 9: is scheduled but not known"},
    {"UnknownFinished", "step: 2 finished: 9", absl::StatusCode::kFailedPrecondition,
     "sequence 9 is finished by step 2 but not known"},
    {"FinishedThenScheduled",
     "step: 2 total_rows: 1 finished: 7 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 "
     "expected_tokens: 4 expected_blocks: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 7: is scheduled but not known"},
    {"NewTwice", "step: 2 new_sequences { sequence: 7 tokens: 1 prompt_tokens: 1 }",
     absl::StatusCode::kFailedPrecondition, "sequence 7: is new but already known"},
    {"ScheduledTwice",
     "step: 2 total_rows: 2 scheduled { sequence: 7 first: 3 count: 1 new_tokens: [9, 9] "
     "expected_tokens: 5 expected_blocks: 1 } scheduled { sequence: 7 first: 4 count: 1 "
     "expected_tokens: 5 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "sequence 7: is scheduled twice in step 2"},
    {"TotalRows",
     "step: 2 total_rows: 2 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 "
     "expected_tokens: 4 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "step 2 has 1 rows but says total_rows 2"},
    {"NegativeTotalRows", "step: 2 total_rows: -1", absl::StatusCode::kInvalidArgument,
     "says total_rows -1"},
    {"ZeroCount", "step: 2 scheduled { sequence: 7 first: 3 }", absl::StatusCode::kInvalidArgument,
     "sequence 7: count 0"},
    {"TooManyRows",
     "step: 2 total_rows: 33 scheduled { sequence: 7 first: 3 count: 32 } "
     "scheduled { sequence: 8 count: 1 }",
     absl::StatusCode::kInvalidArgument, "has 33 rows, at most 32"},
    {"TooManySequencesInAStep",
     "step: 2 total_rows: 3 scheduled { sequence: 7 count: 1 } scheduled { sequence: 8 count: 1 } "
     "scheduled { sequence: 9 count: 1 }",
     absl::StatusCode::kInvalidArgument, "schedules 3 sequences, at most 2"},
    {"TooManySequences",
     "step: 2 new_sequences { sequence: 1 tokens: 1 prompt_tokens: 1 } "
     "new_sequences { sequence: 2 tokens: 1 prompt_tokens: 1 } "
     "new_sequences { sequence: 3 tokens: 1 prompt_tokens: 1 }",
     absl::StatusCode::kResourceExhausted, "sequence 3: would be one more than the 3 kept"},
    {"TokenOutOfVocabulary", "step: 2 new_sequences { sequence: 8 tokens: 100 prompt_tokens: 1 }",
     absl::StatusCode::kInvalidArgument, "sequence 8: token id 100 is not in [0, 100)"},
    {"NegativeToken", "step: 2 new_sequences { sequence: 8 tokens: -1 prompt_tokens: 1 }",
     absl::StatusCode::kInvalidArgument, "token id -1"},
    {"NewTokenOutOfVocabulary",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 100 "
     "expected_tokens: 4 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "sequence 7: token id 100"},
    {"BlockOutOfRange",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 new_blocks: 8 "
     "expected_tokens: 4 expected_blocks: 2 }",
     absl::StatusCode::kInvalidArgument, "sequence 7: block id 8 is not in [0, 8)"},
    {"TooManyBlocks",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: 9 "
     "new_blocks: [0,1,2,3,4,5,6,7] expected_tokens: 4 expected_blocks: 9 }",
     absl::StatusCode::kInvalidArgument, "would have 9 blocks of 8"},
    {"TooLong",
     "step: 2 total_rows: 1 scheduled { sequence: 7 first: 3 count: 1 new_tokens: "
     "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] "
     "expected_tokens: 41 expected_blocks: 1 }",
     absl::StatusCode::kInvalidArgument, "would have 41 tokens, at most 40"},
    {"EmptyPrompt", "step: 2 new_sequences { sequence: 8 }", absl::StatusCode::kInvalidArgument,
     "sequence 8: prompt_tokens 0 of 0 tokens"},
    {"PromptLongerThanTokens", "step: 2 new_sequences { sequence: 8 tokens: 1 prompt_tokens: 2 }",
     absl::StatusCode::kInvalidArgument, "prompt_tokens 2 of 1 tokens"},
    {"Sampling",
     "step: 2 new_sequences { sequence: 8 tokens: 1 prompt_tokens: 1 "
     "sampling { temperature: -1 } }",
     absl::StatusCode::kInvalidArgument, "sequence 8: temperature is -1"},
};
INSTANTIATE_TEST_SUITE_P(All, SequenceTableContradiction, ::testing::ValuesIn(kContradictions),
                         [](const auto& info) { return info.param.name; });

TEST(ValidateSampling, RefusesWhatCannotBeComputedWith) {
  const auto says = [](const std::function<void(v1::SequenceSampling*)>& change) {
    v1::SequenceSampling sampling;
    change(&sampling);
    return std::string(ValidateSampling(sampling, 10).message());
  };
  EXPECT_EQ(says([](auto*) {}), "");
  EXPECT_THAT(says([](auto* s) { s->set_temperature(NAN); }), HasSubstr("temperature is nan"));
  EXPECT_THAT(says([](auto* s) { s->set_top_p(1.5); }), HasSubstr("top_p is 1.5"));
  EXPECT_THAT(says([](auto* s) { s->set_top_p(NAN); }), HasSubstr("top_p is nan"));
  EXPECT_THAT(says([](auto* s) { s->set_min_p(-0.5); }), HasSubstr("min_p is -0.5"));
  EXPECT_THAT(says([](auto* s) { s->set_repetition_penalty(INFINITY); }),
              HasSubstr("repetition_penalty is inf"));
  EXPECT_THAT(says([](auto* s) { s->set_repetition_penalty(-2); }),
              HasSubstr("repetition_penalty is -2"));
  EXPECT_THAT(says([](auto* s) { s->set_presence_penalty(NAN); }), HasSubstr("presence_penalty"));
  EXPECT_THAT(says([](auto* s) { s->set_frequency_penalty(NAN); }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(says([](auto* s) { s->add_bias_ids(1); }), HasSubstr("1 bias_ids and 0 bias_values"));
  EXPECT_THAT(says([](auto* s) { s->add_bias_ids(10), s->add_bias_values(1); }),
              HasSubstr("bias_ids: token id 10"));
  EXPECT_THAT(says([](auto* s) { s->add_bias_ids(1), s->add_bias_values(NAN); }),
              HasSubstr("bias_values is nan"));
  EXPECT_THAT(says([](auto* s) { s->set_top_logprobs(4000); }), HasSubstr("top_logprobs is 4000"));
  EXPECT_THAT(says([](auto* s) { s->add_end_ids(-1); }), HasSubstr("end_ids: token id -1"));
  EXPECT_THAT(says([](auto* s) { s->mutable_end_ids()->Resize(kPlanEndIdsMax + 1, 0); }),
              HasSubstr("65537 end_ids, at most"));
  EXPECT_THAT(says([](auto* s) { s->add_banned(); }), HasSubstr("banned has an entry of 0 ids"));
  EXPECT_THAT(says([](auto* s) { s->add_banned()->add_ids(10); }),
              HasSubstr("banned: token id 10"));
  EXPECT_THAT(says([](auto* s) {
                for (int i = 0; i <= kPlanBannedMax; ++i) s->add_banned()->add_ids(1);
              }),
              HasSubstr("4097 entries of banned"));
  EXPECT_THAT(says([](auto* s) {
                s->add_banned()->mutable_ids()->Resize(static_cast<int>(kPlanBannedIdsMax) + 1, 1);
              }),
              HasSubstr("all together 131072 at most"));
  EXPECT_THAT(says([](auto* s) { s->add_allowed_ids(10); }), HasSubstr("allowed_ids: token id 10"));
  for (const int32_t second : {3, 4}) {
    EXPECT_THAT(says([second](auto* s) { s->add_allowed_ids(4), s->add_allowed_ids(second); }),
                HasSubstr("not in ascending order"));
  }
}

TEST(BuildBatch, LaysRowsOutSequenceBySequence) {
  SequenceTable table(kSmallTable);
  const v1::StepPlan plan = PlanOf(R"(
    step: 4 total_rows: 3
    new_sequences { sequence: 1 tokens: [10, 11, 12] prompt_tokens: 3 cached_tokens: 1 }
    new_sequences { sequence: 2 tokens: [20, 21] prompt_tokens: 2 }
    scheduled { sequence: 2 first: 0 count: 2 new_blocks: [3] sample: true
                expected_tokens: 2 expected_blocks: 1 }
    scheduled { sequence: 1 first: 1 count: 1 new_blocks: [6, 4]
                expected_tokens: 3 expected_blocks: 2 })");
  ASSERT_TRUE(table.Apply(plan).ok());
  Batch batch;
  batch.blocks = {99};  // left by an earlier step
  BuildBatch(plan, &table, &batch);
  EXPECT_EQ(batch.step, StepId(4));
  EXPECT_EQ(batch.rows, 3);
  EXPECT_THAT(batch.tokens, ElementsAre(20, 21, 11));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 1));
  EXPECT_THAT(batch.row_begin, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.first_position, ElementsAre(0, 1));
  EXPECT_THAT(batch.block_begin, ElementsAre(0, 1));
  EXPECT_THAT(batch.blocks, ElementsAre(3, 6, 4));
  ASSERT_EQ(batch.sample_rows.size(), 1u);
  EXPECT_EQ(batch.sample_rows[0].row, 1);
  EXPECT_EQ(batch.sample_rows[0].sequence, table.Find(SequenceId(2)));
}

}  // namespace
}  // namespace tutti::worker
