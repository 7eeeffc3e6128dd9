#include "coordinator/steps/step_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocab = 100;

// Step 1 computes three sequences and samples for the first and the last.
class StepWindowTest : public testing::Test {
 protected:
  StepWindowTest() {
    StepUnderWay* const step = window_.Push();
    step->entries = {
        {SequenceId(7), 10, true}, {SequenceId(8), 32, false}, {SequenceId(9), 5, true}};
  }

  static v1::StepResult Good() {
    v1::StepResult result;
    result.set_step(1);
    Add(&result, 7, 10, 42);
    Add(&result, 9, 5, 99);
    return result;
  }
  static void Add(v1::StepResult* result, uint64_t sequence, int32_t position, int32_t token) {
    v1::SampledToken* const sampled = result->add_sampled();
    sampled->set_sequence(sequence);
    sampled->set_position(position);
    sampled->set_token(token);
    sampled->set_logprob(-1);
  }
  std::string Wrong(const std::function<void(v1::StepResult*)>& change) {
    v1::StepResult result = Good();
    change(&result);
    return std::string(window_.Check(result, kVocab).message());
  }

  StepWindow window_;
};

TEST_F(StepWindowTest, AcceptsTheRightAnswer) {
  EXPECT_TRUE(window_.Check(Good(), kVocab).ok());
  EXPECT_EQ(Wrong([](auto* r) { r->mutable_sampled(0)->set_token(0); }), "");
  EXPECT_EQ(Wrong([](auto* r) { r->mutable_sampled(0)->set_logprob(-INFINITY); }), "");
}

TEST_F(StepWindowTest, AcceptsPoisonedSequencesInTheirPlace) {
  v1::StepResult result = Good();
  result.mutable_sampled()->erase(result.sampled().begin());
  result.add_poisoned(7);
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.add_poisoned(9);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "sequence 9 has a token and none";
  result.clear_sampled();
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.clear_poisoned();
  result.add_poisoned(9);
  result.add_poisoned(7);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "out of order";
}

TEST_F(StepWindowTest, AcceptsRowsWithoutATokenInTheirPlace) {
  v1::StepResult result = Good();
  result.mutable_sampled()->erase(result.sampled().begin());
  result.add_undrawn()->set_sequence(7);
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.add_undrawn()->set_sequence(9);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "sequence 9 has a token and none";
  result.clear_sampled();
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.add_undrawn()->set_sequence(8);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "sequence 8 is not sampled";
}

TEST_F(StepWindowTest, AcceptsLateRowsInTheirPlace) {
  v1::StepResult result = Good();
  result.mutable_sampled()->erase(result.sampled().begin());
  result.add_late(7);
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.add_late(9);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "sequence 9 has a token and none";
  result.clear_sampled();
  EXPECT_TRUE(window_.Check(result, kVocab).ok());
  result.add_late(8);
  EXPECT_FALSE(window_.Check(result, kVocab).ok()) << "sequence 8 is not sampled";
}

TEST_F(StepWindowTest, RefusesWhatCannotBe) {
  EXPECT_THAT(Wrong([](auto* r) { r->set_step(2); }), HasSubstr("step 2, expected step 1"));
  EXPECT_THAT(Wrong([](auto* r) { r->set_step(0); }), HasSubstr("step 0, expected step 1"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled()->RemoveLast(); }),
              HasSubstr("lacks sequence 9"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled()->SwapElements(0, 1); }),
              HasSubstr("lacks sequence 7"));
  EXPECT_THAT(Wrong([](auto* r) { Add(r, 8, 32, 1); }), HasSubstr("names 3 sequences, expected 2"));
  EXPECT_THAT(Wrong([](auto* r) { r->add_poisoned(8); }),
              HasSubstr("names 3 sequences, expected 2"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled(0)->set_position(11); }),
              HasSubstr("sequence 7: position 11 sampled, expected 10"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled(1)->set_token(100); }),
              HasSubstr("sequence 9: token 100 is not in the vocabulary of 100"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled(1)->set_token(-1); }), HasSubstr("token -1"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled(1)->set_logprob(NAN); }),
              HasSubstr("not a number"));
  EXPECT_THAT(Wrong([](auto* r) { r->mutable_sampled(0)->add_top_ids(1); }),
              HasSubstr("1 top_ids and 0 top_logprobs"));
  EXPECT_THAT(Wrong([](auto* r) {
                r->mutable_sampled(0)->add_top_ids(100);
                r->mutable_sampled(0)->add_top_logprobs(-1);
              }),
              HasSubstr("token 100"));
  EXPECT_THAT(Wrong([](auto* r) {
                for (int i = 0; i < 21; ++i) {
                  r->mutable_sampled(0)->add_top_ids(i);
                  r->mutable_sampled(0)->add_top_logprobs(-1);
                }
              }),
              HasSubstr("at most 20"));
}

TEST_F(StepWindowTest, KeepsStepsInOrder) {
  EXPECT_EQ(window_.last_id(), StepId(1));
  window_.Push()->rows = 3;
  EXPECT_EQ(window_.size(), 2u);
  EXPECT_EQ(window_.oldest().id, StepId(1));
  window_.Pop();
  EXPECT_EQ(window_.oldest().id, StepId(2));
  EXPECT_EQ(window_.oldest().rows, 3);
  EXPECT_TRUE(window_.oldest().entries.empty()) << "memory is used again, contents are not";
  window_.Pop();
  EXPECT_THAT(std::string(window_.Check(Good(), kVocab).message()), HasSubstr("expected none"));
  window_.Clear();
  EXPECT_EQ(window_.Push()->id, StepId(1));
}

// Step 1 guesses 11 and 12 for the first sequence.
class StepWindowGuessesTest : public StepWindowTest {
 protected:
  StepWindowGuessesTest() {
    window_.Clear();
    StepUnderWay* const step = window_.Push();
    step->guesses = {1, 11, 12, 3};
    step->entries = {
        {.sequence = SequenceId(7), .end = 10, .sample = true, .guesses = 2, .first_guess = 1},
        {.sequence = SequenceId(9), .end = 5, .sample = true}};
  }
  // The first sequence's tokens, and one of the other.
  std::string Check(const std::vector<int32_t>& tokens, bool poisoned = false) {
    v1::StepResult result;
    result.set_step(1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      Add(&result, 7, 10 + static_cast<int32_t>(i), tokens[i]);
    }
    if (poisoned) result.add_poisoned(7);
    Add(&result, 9, 5, 11);
    return std::string(window_.Check(result, kVocab).message());
  }
};

TEST_F(StepWindowGuessesTest, AsManyTokensAsWereGuessedRightAndOne) {
  EXPECT_EQ(Check({5}), "");
  EXPECT_EQ(Check({11, 5}), "");
  EXPECT_EQ(Check({11, 12, 5}), "");
  EXPECT_EQ(Check({11}, /*poisoned=*/true), "") << "the row behind the guess lost its numbers";
  EXPECT_EQ(Check({11, 12}, /*poisoned=*/true), "");
  EXPECT_EQ(Check({}, /*poisoned=*/true), "");
}

TEST_F(StepWindowGuessesTest, NoOthers) {
  EXPECT_THAT(Check({11}), HasSubstr("lacks sequence 7"));
  EXPECT_THAT(Check({11, 12}), HasSubstr("lacks sequence 7"));
  EXPECT_THAT(Check({5, 12}), HasSubstr("lacks sequence 9")) << "12 was drawn behind a wrong guess";
  EXPECT_THAT(Check({11, 12, 5, 6}), HasSubstr("lacks sequence 9"));
  EXPECT_THAT(Check({5}, /*poisoned=*/true), HasSubstr("names 3 sequences, expected 2"));
  EXPECT_THAT(Check({11, 100}), HasSubstr("token 100"));
}

// Step 1 asks for 3 drafts of the first sequence, reads the prompt of the second, and asks for 2 of
// the last.
class StepWindowDraftsTest : public StepWindowTest {
 protected:
  StepWindowDraftsTest() {
    window_.Clear();
    StepUnderWay* const step = window_.Push();
    step->guesses = {11};
    step->entries = {
        {.sequence = SequenceId(7), .end = 10, .sample = true, .guesses = 1, .drafts = 3},
        {.sequence = SequenceId(8), .end = 32, .sample = false},
        {.sequence = SequenceId(9), .end = 5, .sample = true, .drafts = 2}};
  }
  struct Drafts {
    uint64_t sequence = 0;
    int32_t position = 0;
    std::vector<int32_t> tokens;
  };
  // Two tokens of the first sequence, one of the last, and drafts.
  std::string Check(const std::vector<Drafts>& all, bool poisoned = false) {
    v1::StepResult result;
    result.set_step(1);
    if (!poisoned) {
      Add(&result, 7, 10, 11);
      Add(&result, 7, 11, 12);
    } else {
      result.add_poisoned(7);
    }
    Add(&result, 9, 5, 13);
    for (const Drafts& one : all) {
      v1::DraftedTokens* const drafted = result.add_drafted();
      drafted->set_sequence(one.sequence);
      drafted->set_position(one.position);
      drafted->mutable_tokens()->Add(one.tokens.begin(), one.tokens.end());
    }
    return std::string(window_.Check(result, kVocab).message());
  }
};

TEST_F(StepWindowDraftsTest, AsManyAsWereAskedForBehindTheLastToken) {
  EXPECT_EQ(Check({}), "");
  EXPECT_EQ(Check({{7, 12, {1, 2, 99}}, {9, 6, {0, 1}}}), "");
  EXPECT_EQ(Check({{7, 12, {1}}}), "");
  EXPECT_EQ(Check({{7, 12, {}}, {9, 6, {1}}}), "");
  EXPECT_EQ(Check({{9, 6, {1}}, {7, 12, {1}}}), "") << "in any order";
  EXPECT_EQ(Check({{9, 6, {1, 1}}}, /*poisoned=*/true), "");
}

TEST_F(StepWindowDraftsTest, NoOthers) {
  EXPECT_THAT(Check({{7, 12, {1, 2, 3, 4}}}), HasSubstr("4 tokens, at most 3 were asked for"));
  EXPECT_THAT(Check({{7, 11, {1}}}), HasSubstr("position 11, expected 12"));
  EXPECT_THAT(Check({{7, 13, {1}}}), HasSubstr("position 13, expected 12"));
  EXPECT_THAT(Check({{7, -1, {1}}}), HasSubstr("position -1, expected 12"));
  EXPECT_THAT(Check({{7, 12, {1, 100}}}), HasSubstr("sequence 7: token 100 is not in the voc"));
  EXPECT_THAT(Check({{9, 6, {-1}}}), HasSubstr("token -1 is not in the vocabulary"));
  EXPECT_THAT(Check({{8, 32, {1}}}), HasSubstr("sequence 8: it was not asked for any"));
  EXPECT_THAT(Check({{8, 32, {}}}), HasSubstr("sequence 8: it was not asked for any"));
  EXPECT_THAT(Check({{7, 10, {1}}}, /*poisoned=*/true), HasSubstr("no token was drawn"));
  EXPECT_THAT(Check({{5, 12, {1}}}), HasSubstr("sequence 5: it was not asked for any"));
  EXPECT_THAT(Check({{7, 12, {1}}, {7, 12, {1}}}), HasSubstr("sequence 7: it was not asked"));
}

}  // namespace
}  // namespace tutti::coordinator
