#include "worker/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "worker/drafter_testing.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<TokenId> Counting(int32_t first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Wrong behind 5.
TokenId MostlyOneMore(TokenId token) { return token == 5 ? 700 : OneMore(token); }

TEST(DrafterTest, GoesOnBehindTheTokenThatWasDrawn) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2, 3});
  const v1::StepResult result = worker.Step({{.drafts = 4}});
  EXPECT_EQ(result.sampled(0).token(), 4);
  ASSERT_EQ(result.drafted_size(), 1);
  EXPECT_EQ(result.drafted(0).sequence(), 1u);
  EXPECT_EQ(result.drafted(0).position(), 4);
  EXPECT_THAT(result.drafted(0).tokens(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(4, 1, 1, 1));
  EXPECT_EQ(worker.passes_begun, 4) << "whoever watches it knows";
  EXPECT_EQ(result.done().draft_passes(), 4);
  EXPECT_EQ(result.done().draft_us(), 4 * 3000);
  EXPECT_EQ(result.done().compute_us(), 3000) << "steps do not take longer for it";
}

TEST(DrafterTest, ItsTimeIsItsOwnAlsoWhereNothingIsDrawn) {
  DraftingWorker worker;
  worker.Begin(1, Counting(1, 20));
  for (int step = 0; step < 2; ++step) {
    const v1::StepDone done = worker.Step({{.drafts = 0, .chunk = 10}}).done();
    EXPECT_EQ(done.compute_us(), 3000);
    EXPECT_EQ(done.draft_us(), 3000);
    EXPECT_EQ(done.draft_passes(), 1);
  }
}

TEST(DrafterTest, ComputesWhatItHasNotYet) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2, 3});
  ASSERT_THAT(worker.DraftsOf({{.drafts = 3}}), ElementsAre(5, 6, 7));
  worker.draft.PopRows();
  // 5, 6 and 7 were right, and 8 is drawn behind them: of these, 7 and 8 have no rows.
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2, .guesses = {5, 6, 7}}}), ElementsAre(9, 10));
  EXPECT_THAT(worker.tokens(1), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(2, 1));
  // The next two come without guesses, so that the row it must draw from is there: once more.
  EXPECT_THAT(worker.DraftsOf({{.drafts = 3}}), ElementsAre(10, 11, 12));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(1, 1, 1));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 1}}), ElementsAre(11));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(1));
}

TEST(DrafterTest, RowsOfWrongGuessesAreComputedAgain) {
  DraftingWorker worker({.next = MostlyOneMore});
  worker.Begin(1, {1, 2, 3});
  ASSERT_THAT(worker.DraftsOf({{.drafts = 4}}), ElementsAre(5, 700, 701, 702));
  worker.draft.PopRows();
  // It has rows of 5, 700 and 701, and the text goes on with 5, 6.
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2, .guesses = {5, 700, 701, 702}}}), ElementsAre(7, 8));
  EXPECT_THAT(worker.tokens(1), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(1, 1));
}

TEST(DrafterTest, AlsoWhereItOnlyKeepsUp) {
  DraftingWorker worker({.next = MostlyOneMore});
  worker.Begin(1, {1, 2, 3});
  ASSERT_THAT(worker.DraftsOf({{.drafts = 4}}), ElementsAre(5, 700, 701, 702));
  worker.draft.PopRows();
  worker.Step({{.drafts = 0, .guesses = {5, 700}}});
  worker.Step({{.drafts = 0}});
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(1, 1));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(9, 10));
}

TEST(DrafterTest, KeepsUpAndSaysNothingWhereItIsNotAsked) {
  DraftingWorker worker;
  worker.Begin(1, Counting(1, 10));
  EXPECT_THAT(worker.Step({{.drafts = 0, .chunk = 6}}).drafted(), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(6));
  EXPECT_THAT(worker.Step({{.drafts = 0}}).drafted(), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(5));
  const v1::StepResult result = worker.Step({{}});
  EXPECT_THAT(result.drafted(), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), IsEmpty()) << "nor was it asked to keep up";
  EXPECT_EQ(result.done().draft_passes(), 0);
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(14, 15));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(2, 1));
}

TEST(DrafterTest, NobodyWaitsForMuchThatIsMissing) {
  DraftingWorker worker;
  worker.Begin(9, Counting(100, 40));
  for (int i = 0; i < 2; ++i) worker.Step({{.sequence = 9, .chunk = 20}});
  worker.Begin(1, Counting(100, 40), worker.blocks(9), /*cached=*/39);
  worker.Begin(2, {1, 2, 3});
  // The one with little to do goes first.
  EXPECT_THAT(worker.DraftsOf(
                  {{.sequence = 1, .drafts = 2, .more_blocks = 1}, {.sequence = 2, .drafts = 2}}),
              ElementsAre(5, 6));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(kDraftBatchTokens, 1));
  // 41 tokens were missing then, of which 20 had room; one more has come.
  EXPECT_THAT(worker.DraftsOf({{.sequence = 1, .drafts = 2}}), ElementsAre(142, 143));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(22, 1));
}

// Only the worker knows how much is missing.
TEST(DrafterTest, APrefixThatWasCachedIsReadInPieces) {
  DraftingWorker worker({.max_batch_tokens = 512});
  worker.Begin(9, Counting(100, 400));
  worker.Step({{.sequence = 9}});
  ASSERT_THAT(worker.draft.PopRows(), IsEmpty());
  worker.Begin(1, Counting(100, 400), worker.blocks(9), /*cached=*/399);
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2, .more_blocks = 1}}), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(kDraftRowsBehindMax + 1));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(502, 503));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(402 - kDraftRowsBehindMax - 1, 1));
  // What the step itself computes of a prompt is read at once.
  worker.Begin(2, Counting(1, 400));
  worker.Step({{.sequence = 2, .drafts = 0}});
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(400));
}

TEST(DrafterTest, SequencesThatAreDraftedShareThePasses) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2, 3});
  worker.Begin(2, {50, 51});
  worker.Begin(3, {80});
  const v1::StepResult result = worker.Step(
      {{.sequence = 1, .drafts = 1}, {.sequence = 2, .drafts = 3}, {.sequence = 3, .drafts = 0}});
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(4 + 3 + 2, 1, 1));
  ASSERT_THAT(result.drafted(), SizeIs(2));
  const bool first = result.drafted(0).sequence() == 1;
  EXPECT_THAT(result.drafted(first ? 0 : 1).tokens(), ElementsAre(5));
  EXPECT_THAT(result.drafted(first ? 1 : 0).tokens(), ElementsAre(53, 54, 55));
}

TEST(DrafterTest, ARowNeedsASlot) {
  DraftingWorker worker;
  worker.Begin(1, Counting(1, 14));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 5}}), ElementsAre(16, 17)) << "rows of slots 14 and 15";
  worker.Begin(2, Counting(1, 16));
  EXPECT_THAT(worker.DraftsOf({{.sequence = 2, .drafts = 5}}), IsEmpty()) << "17 has no slot";
  EXPECT_THAT(worker.DraftsOf({{.sequence = 2, .drafts = 1}}), ElementsAre(19));
  worker.Begin(3, Counting(1, 16));
  EXPECT_THAT(worker.DraftsOf({{.sequence = 3, .drafts = 2, .more_blocks = 1}}),
              ElementsAre(18, 19));
}

TEST(DrafterTest, EndsWithItsContext) {
  DraftingWorker worker({.max_model_len = 9});
  worker.Begin(1, Counting(1, 5));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 5}}), ElementsAre(7, 8, 9)) << "9 tokens";
  EXPECT_THAT(worker.DraftsOf({{.drafts = 5, .guesses = {7}}}), ElementsAre(9));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 5}}), IsEmpty());
  EXPECT_THAT(worker.DraftsOf({{.drafts = 5}}), IsEmpty());
  EXPECT_EQ(worker.tokens(1).size(), 10u);
}

TEST(DrafterTest, ASmallerVocabularyLacksTokens) {
  DraftingWorker worker({.vocab_size = 100});
  worker.Begin(1, {96});
  EXPECT_THAT(worker.DraftsOf({{.drafts = 8}}), ElementsAre(98, 99)) << "100 is no token of its";
  EXPECT_THAT(worker.DraftsOf({{.drafts = 1, .guesses = {98, 99}}}), IsEmpty()) << "100 is drawn";
  EXPECT_EQ(worker.tokens(1).back(), 100);
  worker.draft.PopRows();
  EXPECT_THAT(worker.DraftsOf({{.drafts = 1}}), IsEmpty());
  worker.Begin(2, {500, 3});
  EXPECT_THAT(worker.DraftsOf({{.sequence = 2, .drafts = 1}}), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), IsEmpty());
}

TEST(DrafterTest, TokensThatTheTargetLacksAreNoGuesses) {
  DraftingWorker worker({.vocab_size = kVocab + 50,
                         .next = [](TokenId token) { return token < 7 ? token + 1 : kVocab + 7; }});
  worker.Begin(1, {3});
  EXPECT_THAT(worker.DraftsOf({{.drafts = 8}}), ElementsAre(5, 6, 7));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 8}}), ElementsAre(6, 7));
}

TEST(DrafterTest, WhatIsNoNumberEndsNothingButItsGuesses) {
  DraftingWorker worker;
  worker.Begin(1, {1});
  worker.draft.next_draw = kTokenOfNoNumbers;
  worker.draft.faults.emplace_back().set_sequence(1);
  v1::StepResult result = worker.Step({{.drafts = 3}});
  EXPECT_THAT(result.drafted(), IsEmpty());
  EXPECT_THAT(result.faults(), IsEmpty());
  EXPECT_THAT(result.poisoned(), IsEmpty());
  worker.draft.PopRows();
  EXPECT_EQ(worker.Step({{.drafts = 3}}).sampled(0).token(), 3);
  EXPECT_THAT(worker.draft.PopRows(), IsEmpty()) << "its K/V is none, either";
  worker.Begin(1, worker.tokens(1));
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(5, 6));
}

TEST(DrafterTest, OfATokenThatIsLateNothingIsGuessed) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2});
  worker.target->next_draw = kLateToken;
  const v1::StepResult result = worker.Step({{.drafts = 3}});
  EXPECT_THAT(result.late(), ElementsAre(1u));
  EXPECT_THAT(result.drafted(), IsEmpty());
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(2));
}

TEST(DrafterTest, OfARequestThatEndsNothingIsComputed) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2});
  worker.target->next_draw = kTokenOfNoNumbers;
  EXPECT_THAT(worker.Step({{.drafts = 3}}).poisoned(), ElementsAre(1u));
  EXPECT_THAT(worker.draft.PopRows(), IsEmpty());
}

TEST(DrafterTest, ASequenceThatComesAgainBeginsAnew) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2, 3});
  worker.Step({{.drafts = 4}});
  worker.Begin(1, {1, 2, 3, 4, 90}, {7});
  worker.draft.PopRows();
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(92, 93));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(6, 1));
}

// The blocks of a sequence of 40 tokens that the draft model has kept up with.
std::vector<int32_t> BlocksThatAreComputed(DraftingWorker* worker) {
  worker->Begin(9, Counting(100, 40));
  for (int i = 0; i < 2; ++i) worker->Step({{.sequence = 9, .drafts = 0, .chunk = 20}});
  const std::vector<int32_t> blocks = worker->blocks(9);
  worker->End(9);
  worker->draft.PopRows();
  return blocks;
}

TEST(DrafterTest, BehindACachedPrefixItComputesWhatIsNotThere) {
  DraftingWorker worker;
  const std::vector<int32_t> blocks = BlocksThatAreComputed(&worker);
  worker.Begin(1, Counting(100, 40), {blocks[0], blocks[1]}, /*cached=*/32);
  EXPECT_THAT(worker.DraftsOf({{.drafts = 2}}), ElementsAre(141, 142));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(9, 1)) << "tokens 32 to 40";
  // It looks at the tokens, too.
  std::vector<TokenId> other = Counting(100, 40);
  other[20] = 7;
  worker.Begin(3, other, {blocks[0]}, 16);
  worker.Step({{.sequence = 3, .drafts = 1}});
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(kDraftBatchTokens));
}

TEST(DrafterTest, AnEpochThatGoesOnWithTheKvNeedNotComputeIt) {
  DraftingWorker worker;
  const std::vector<int32_t> blocks = BlocksThatAreComputed(&worker);
  worker.BeginEpoch();
  worker.Begin(1, Counting(100, 40), blocks, /*cached=*/39);
  EXPECT_THAT(worker.DraftsOf({{.drafts = 1}}), ElementsAre(141));
  EXPECT_THAT(worker.draft.PopRows(), ElementsAre(9));
}

TEST(DrafterTest, AnErrorOfItsDeviceIsTheWorkers) {
  DraftingWorker worker;
  worker.Begin(1, {1, 2, 3});
  worker.draft.fails = true;
  worker.Step({{.drafts = 4}});
  EXPECT_THAT(worker.failure(), HasSubstr("step 1: the draft model: the device is gone"));
}

TEST(DrafterTest, ItsMemoryIsTheShards) {
  DraftingWorker worker;
  EXPECT_EQ(worker.ready.weight_bytes(), 20);
  EXPECT_EQ(worker.ready.kv_bytes(), 40);
  EXPECT_EQ(worker.ready.activation_bytes(), 60);
}

TEST(DrafterTest, HostilePlansAreRefused) {
  for (const int32_t drafts : {-1, kPlanGuessesMax + 1}) {
    DraftingWorker worker;
    worker.Begin(5, {1, 2, 3});
    worker.Step({{.sequence = 5, .drafts = drafts}});
    EXPECT_THAT(worker.failure(), HasSubstr("sequence 5: drafts is"));
    EXPECT_THAT(worker.draft.PopRows(), IsEmpty());
  }
  DraftingWorker worker({.is_there = false});
  worker.Begin(5, {1, 2, 3});
  worker.Step({{.sequence = 5, .drafts = 0}});
  EXPECT_THAT(worker.failure(),
              HasSubstr("sequence 5: has drafts, but this worker's shard has no draft model"));
}

}  // namespace
}  // namespace tutti::worker
