#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/batch.h"
#include "worker/sequence_table_testing.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Step 2 of sequence 7, which has 4 tokens then, guesses 5 and 6 behind them.
v1::StepPlan GuessingPlan() {
  return PlanOf(R"(
    step: 2 total_rows: 3
    scheduled { sequence: 7 first: 3 count: 3 new_tokens: 4 sample: true guesses: [5, 6]
                expected_tokens: 4 expected_blocks: 1 })");
}

TEST(SequenceTableGuesses, ThoseThatWereRightAreComputed) {
  for (int right = 0; right <= 2; ++right) {
    SequenceTable table(kSmallTable);
    ASSERT_TRUE(table.Apply(FirstPlan()).ok());
    ASSERT_EQ(table.Apply(GuessingPlan()), absl::OkStatus());
    EXPECT_EQ(table.Find(SequenceId(7))->computed, 4);
    EXPECT_THAT(table.Find(SequenceId(7))->tokens, ElementsAre(1, 2, 3, 4)) << "they are none yet";
    v1::StepPlan next = PlanOf(R"(step: 3 total_rows: 1 scheduled { sequence: 7 count: 1
                                                                    expected_blocks: 1 })");
    v1::ScheduledSequence* const scheduled = next.mutable_scheduled(0);
    scheduled->set_first(4 + right);
    for (int i = 0; i < right; ++i) scheduled->add_new_tokens(5 + i);
    scheduled->add_new_tokens(9);
    scheduled->set_expected_tokens(5 + right);
    ASSERT_EQ(table.Apply(next), absl::OkStatus()) << right;
    EXPECT_EQ(table.Find(SequenceId(7))->computed, 5 + right);
    EXPECT_THAT(table.Find(SequenceId(7))->guesses, testing::IsEmpty());
  }
}

TEST(SequenceTableGuesses, AWrongOneIsNotComputed) {
  const auto says = [](const std::string& scheduled) {
    SequenceTable table(kSmallTable);
    EXPECT_TRUE(table.Apply(FirstPlan()).ok());
    EXPECT_TRUE(table.Apply(GuessingPlan()).ok());
    return std::string(table
                           .Apply(PlanOf("step: 3 total_rows: 1 scheduled { sequence: 7 count: 1 "
                                         "expected_blocks: 1 " +
                                         scheduled + "}"))
                           .message());
  };
  EXPECT_THAT(says("first: 5 new_tokens: [8, 9] expected_tokens: 6"),
              HasSubstr("goes on behind a guess at position 4 that is not its token"));
  EXPECT_THAT(says("first: 6 new_tokens: [5, 9] expected_tokens: 6"),
              HasSubstr("goes on behind a guess at position 5"));
  EXPECT_THAT(says("first: 5 expected_tokens: 4"), HasSubstr("goes on behind a guess"));
  EXPECT_THAT(says("first: 7 new_tokens: [5, 6, 7, 8] expected_tokens: 8"),
              HasSubstr("is computed to 4, with 2 guesses behind it, plan goes on at 7"));
  EXPECT_THAT(says("first: 3 new_tokens: 9 expected_tokens: 5"), HasSubstr("plan goes on at 3"));
}

TEST(SequenceTableGuesses, ImpossibleOnesAreRefused) {
  const auto says = [](const std::function<void(v1::ScheduledSequence*)>& change) {
    SequenceTable table(kSmallTable);
    EXPECT_TRUE(table.Apply(FirstPlan()).ok());
    v1::StepPlan plan = GuessingPlan();
    change(plan.mutable_scheduled(0));
    plan.set_total_rows(plan.scheduled(0).count());
    const absl::Status status = table.Apply(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(says([](auto* s) { s->set_sample(false); }), HasSubstr("samples none"));
  EXPECT_THAT(says([](auto* s) { s->set_guesses(1, -1); }), HasSubstr("token id -1"));
  EXPECT_THAT(says([](auto* s) { s->set_guesses(1, kSmallTable.vocab_size); }),
              HasSubstr("is not in [0, "));
  EXPECT_THAT(says([](auto* s) { s->set_count(2); }), HasSubstr("2 guesses among 2 rows"));
  EXPECT_THAT(says([](auto* s) { s->set_count(1); }), HasSubstr("2 guesses among 1 rows"));
  EXPECT_THAT(says([](auto* s) { s->set_count(4); }), HasSubstr("computes 2 tokens from 3"));
}

TEST(SequenceTableGuesses, WhatWasAddedIsTakenBackWithItsCount) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table
                  .Apply(PlanOf(R"(
    step: 1
    new_sequences { sequence: 2 tokens: [4, 5, 6] prompt_tokens: 2
                    sampling { presence_penalty: 0.5 } })"))
                  .ok());
  SequenceState* const state = table.FindToGoOn(SequenceId(2));
  const auto counts = [state](TokenId id) {
    const auto found = state->counts.find(id);
    return found == state->counts.end() ? -1 : found->second.in_output;
  };
  for (const TokenId id : {6, 4, 9}) state->Append(id);
  EXPECT_THAT(state->tokens, ElementsAre(4, 5, 6, 6, 4, 9));
  EXPECT_THAT((std::vector<int32_t>{counts(4), counts(5), counts(6), counts(9)}),
              ElementsAre(1, 0, 2, 1));
  for (int i = 0; i < 3; ++i) state->TakeBack();
  EXPECT_THAT(state->tokens, ElementsAre(4, 5, 6));
  EXPECT_THAT((std::vector<int32_t>{counts(4), counts(5), counts(6), counts(9)}),
              ElementsAre(0, 0, 1, -1));
  EXPECT_TRUE(state->counts.at(4).in_prompt);
}

TEST(BuildBatch, GuessesAreRowsBehindTheirSequence) {
  SequenceTable table(kSmallTable);
  ASSERT_TRUE(table.Apply(FirstPlan()).ok());
  const v1::StepPlan plan = GuessingPlan();
  ASSERT_TRUE(table.Apply(plan).ok());
  Batch batch;
  BuildBatch(plan, &table, &batch);
  EXPECT_THAT(batch.tokens, ElementsAre(4, 5, 6));
  EXPECT_THAT(batch.positions, ElementsAre(3, 4, 5));
  EXPECT_THAT(batch.row_begin, ElementsAre(0, 3));
  ASSERT_EQ(batch.sample_rows.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.sample_rows[i].row, i);
    EXPECT_EQ(batch.sample_rows[i].sequence, table.Find(SequenceId(7)));
    EXPECT_EQ(batch.sample_rows[i].goes_on != nullptr, i > 0);
  }
  EXPECT_EQ(batch.sample_rows[1].guess, 5);
  EXPECT_EQ(batch.sample_rows[2].guess, 6);
}

}  // namespace
}  // namespace tutti::worker
