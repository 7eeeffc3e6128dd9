#include "coordinator/steps/finished_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/random.h"
#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kPartBytes = FinishedAnswers::kPartBytes;
constexpr Hash128 kAcme = {1, 1}, kBolt = {2, 2};

Sequence MakeSequence(std::vector<TokenId> prompt, const std::vector<TokenId>& output,
                      Hash128 owner = kAcme, Hash128 domain = kAcme) {
  Sequence sequence;
  sequence.request.owner = owner;
  sequence.request.cache_domain = domain;
  sequence.prompt_tokens = static_cast<int32_t>(prompt.size());
  sequence.tokens = std::move(prompt);
  sequence.tokens.insert(sequence.tokens.end(), output.begin(), output.end());
  return sequence;
}

// So many tokens, of which none stands twice; those of two seeds are others.
std::vector<TokenId> Text(int32_t tokens, TokenId seed = 0) {
  std::vector<TokenId> text(static_cast<size_t>(tokens));
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<TokenId>(i) + 100'000 * (seed + 1);
  }
  return text;
}

std::vector<TokenId> Part(const std::vector<TokenId>& text, int32_t first, int32_t count) {
  return {text.begin() + first, text.begin() + first + count};
}

// In a step of its own, behind as many as it takes to index everything.
std::vector<TokenId> Guess(FinishedAnswers* answers, const Sequence& sequence, int32_t most,
                           int32_t* equal = nullptr) {
  while (answers->unindexed() > 0) answers->BeginStep();
  std::vector<TokenId> guesses = {77};  // others'
  answers->BeginStep();
  std::vector<TokenId> of_last;
  answers->Guess(sequence, most, &of_last);  // no question is left over from the last
  answers->BeginStep();
  const int32_t found = answers->Guess(sequence, most, &guesses);
  if (equal != nullptr) *equal = found;
  EXPECT_EQ(guesses.front(), 77);
  guesses.erase(guesses.begin());
  return guesses;
}

// Whether it knows what comes behind the first ten tokens of an answer.
bool Knows(FinishedAnswers* answers, const std::vector<TokenId>& answer, Hash128 owner = kAcme,
           Hash128 domain = kAcme) {
  const auto guesses = Guess(answers, MakeSequence(Part(answer, 0, 10), {}, owner, domain), 3);
  if (guesses.empty()) return false;
  EXPECT_THAT(guesses, ElementsAreArray(Part(answer, 10, 3)));
  return true;
}

TEST(FinishedAnswersTest, WhatAnAnswerSaidTheNextSaysAgain) {
  FinishedAnswers answers;
  answers.Keep(MakeSequence({1, 2, 3}, {11, 12, 13, 14, 15, 16, 17, 18}));
  int32_t equal = 0;
  EXPECT_THAT(Guess(&answers, MakeSequence({5, 6}, {12, 13, 14}), 3, &equal),
              ElementsAre(15, 16, 17));
  EXPECT_EQ(equal, 3);
  EXPECT_THAT(Guess(&answers, MakeSequence({5}, {11, 12, 13, 14, 15}), 15, &equal),
              ElementsAre(16, 17, 18))
      << "no further than the answer";
  EXPECT_EQ(equal, 5);
  EXPECT_THAT(Guess(&answers, MakeSequence({5, 6}, {12, 14, 13}), 3, &equal), IsEmpty());
  EXPECT_EQ(equal, 0);
  EXPECT_THAT(Guess(&answers, MakeSequence({17}, {18}), 3), IsEmpty());
  EXPECT_THAT(Guess(&answers, MakeSequence({16, 17}, {18}), 3), IsEmpty()) << "nothing follows";
}

TEST(FinishedAnswersTest, AQuestionThatComesAgainFindsItsAnswer) {
  FinishedAnswers answers;
  const std::vector<TokenId> one = Text(100, 1), two = Text(100, 2), end = {7, 8, 9};
  const auto ask = [&](std::vector<TokenId> prompt, const std::vector<TokenId>& answer) {
    prompt.insert(prompt.end(), end.begin(), end.end());  // as a chat's template ends all
    return MakeSequence(prompt, answer);
  };
  answers.Keep(ask(one, {11, 12, 13, 14, 15, 16, 17, 18}));
  answers.Keep(ask(two, {21, 22, 23, 24, 25, 26, 27, 28}));
  int32_t equal = 0;
  EXPECT_THAT(Guess(&answers, ask(one, {}), 4, &equal), ElementsAre(11, 12, 13, 14));
  EXPECT_EQ(equal, PartIndex::kEqualMax);
  EXPECT_THAT(Guess(&answers, ask(two, {}), 4, &equal), ElementsAre(21, 22, 23, 24));
  EXPECT_THAT(Guess(&answers, ask(Text(100, 3), {}), 4, &equal), ElementsAre(21, 22, 23, 24));
  EXPECT_EQ(equal, 3) << "the latest";
  EXPECT_FALSE(Knows(&answers, one)) << "of prompts only the last tokens are kept";
}

TEST(FinishedAnswersTest, NothingMatchesOverTheBorderOfTwoAnswers) {
  FinishedAnswers answers;
  answers.Keep(MakeSequence({}, {11, 12, 13, 14, 15, 16, 17, 18}));
  answers.Keep(MakeSequence({}, {21, 22, 23, 24, 25, 26, 27, 28}));
  EXPECT_THAT(Guess(&answers, MakeSequence({17}, {18, 21}), 3), IsEmpty());
  EXPECT_THAT(Guess(&answers, MakeSequence({16, 17}, {18}), 3), IsEmpty());
  int32_t equal = 0;
  EXPECT_THAT(Guess(&answers, MakeSequence({17, 18, 21}, {22, 23, 24}), 2, &equal),
              ElementsAre(25, 26));
  EXPECT_EQ(equal, 4);
}

TEST(FinishedAnswersTest, EachOwnerHasItsOwn) {
  FinishedAnswers answers;
  const std::vector<TokenId> text = Text(50);
  answers.Keep(MakeSequence({1}, text));
  EXPECT_TRUE(Knows(&answers, text));
  EXPECT_FALSE(Knows(&answers, text, kBolt, kBolt));
  EXPECT_FALSE(Knows(&answers, text, kBolt, kAcme)) << "prompts may be shared, answers are not";
  EXPECT_FALSE(Knows(&answers, text, kAcme, {3, 3})) << "with another salt";
  EXPECT_FALSE(Knows(&answers, text, {}, kAcme)) << "nobody's";
  answers.Keep(MakeSequence({1}, text, kAcme, {3, 3}));
  EXPECT_TRUE(Knows(&answers, text, kAcme, {3, 3}));
}

TEST(FinishedAnswersTest, NothingIsKeptOfWhatIsNobodysOrShort) {
  FinishedAnswers answers;
  answers.Keep(MakeSequence({1}, Text(50), {}, {}));
  answers.Keep(MakeSequence(Text(50), {1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(answers.bytes(), 0);
  answers.Keep(MakeSequence(Text(50), {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(answers.bytes(), kPartBytes);
  EXPECT_EQ(answers.tokens(), 40);
}

// Whatever part a passage is in, or between which two, all that follows it is found.
TEST(FinishedAnswersTest, ALongAnswerIsFoundEverywhere) {
  for (const int32_t before : {0, 20, 1950, 1990, 2040}) {
    FinishedAnswers answers;
    if (before > 0) answers.Keep(MakeSequence({}, Text(before, 2)));
    const std::vector<TokenId> text = Text(5000);
    answers.Keep(MakeSequence(Text(100, 1), text));
    for (int32_t at = 3; at < 5000; ++at) {
      const auto guesses = Guess(&answers, MakeSequence(Part(text, at - 3, 3), {}), 2);
      ASSERT_THAT(guesses, testing::Not(IsEmpty())) << before << ", " << at;
      EXPECT_EQ(guesses.front(), text[static_cast<size_t>(at)]);
    }
    EXPECT_EQ(answers.bytes(), (before < 1000 ? 3 : 4) * kPartBytes) << before;
  }
}

TEST(FinishedAnswersTest, OfTheLongestTheEndIsKept) {
  FinishedAnswers answers;
  const std::vector<TokenId> text = Text(3 * kAnswerTokensMax);
  answers.Keep(MakeSequence({1}, text));
  EXPECT_FALSE(Knows(&answers, text));
  EXPECT_FALSE(Knows(&answers, Part(text, 2 * kAnswerTokensMax - 11, 20)));
  EXPECT_TRUE(Knows(&answers, Part(text, 2 * kAnswerTokensMax, 20)));
  EXPECT_LE(answers.tokens(), kAnswerTokensMax + 5 * PartIndex::kEqualMax);
}

TEST(FinishedAnswersTest, TheOldestGoFirst) {
  FinishedAnswers answers({.text_parts = 4});
  for (TokenId i = 0; i < 10; ++i) answers.Keep(MakeSequence({1}, Text(2000, i)));
  EXPECT_EQ(answers.bytes(), 4 * kPartBytes);
  for (TokenId i = 0; i < 10; ++i) EXPECT_EQ(Knows(&answers, Text(2000, i)), i >= 6) << i;
}

// An owner with many salts has no more than others.
TEST(FinishedAnswersTest, AllTextsOfAnOwnerAreCountedTogether) {
  FinishedAnswers answers({.owner_bytes = 3 * kPartBytes});
  for (TokenId i = 0; i < 10; ++i) {
    answers.Keep(MakeSequence({1}, Text(2000, i), kAcme, {static_cast<uint64_t>(i), 9}));
  }
  EXPECT_EQ(answers.bytes(), 3 * kPartBytes);
  for (TokenId i = 0; i < 10; ++i) {
    EXPECT_EQ(Knows(&answers, Text(2000, i), kAcme, {static_cast<uint64_t>(i), 9}), i >= 7) << i;
  }
}

TEST(FinishedAnswersTest, AFloodDrivesOutItsOwn) {
  FinishedAnswers answers({.bytes = 6 * kPartBytes});
  answers.Keep(MakeSequence({1}, Text(2000, 0)));
  answers.Keep(MakeSequence({1}, Text(2000, 1)));
  for (TokenId i = 10; i < 40; ++i) {
    answers.Keep(MakeSequence({1}, Text(2000, i), kBolt, {static_cast<uint64_t>(i), 9}));
  }
  EXPECT_EQ(answers.bytes(), 6 * kPartBytes);
  EXPECT_TRUE(Knows(&answers, Text(2000, 0)));
  EXPECT_TRUE(Knows(&answers, Text(2000, 1)));
  for (TokenId i = 10; i < 40; ++i) {
    EXPECT_EQ(Knows(&answers, Text(2000, i), kBolt, {static_cast<uint64_t>(i), 9}), i >= 36) << i;
  }
  // And who comes gets its part of what it left nobody.
  for (TokenId i = 2; i < 9; ++i) answers.Keep(MakeSequence({1}, Text(2000, i)));
  EXPECT_EQ(answers.bytes(), 6 * kPartBytes);
  for (TokenId i = 2; i < 9; ++i) EXPECT_EQ(Knows(&answers, Text(2000, i)), i >= 6) << i;
  for (TokenId i = 37; i < 40; ++i) {
    EXPECT_TRUE(Knows(&answers, Text(2000, i), kBolt, {static_cast<uint64_t>(i), 9})) << i;
  }
}

TEST(FinishedAnswersTest, OfEqualOwnersTheOldestPartGoes) {
  FinishedAnswers answers({.bytes = 4 * kPartBytes});
  for (uint64_t i = 1; i <= 9; ++i) {
    answers.Keep(MakeSequence({1}, Text(50, static_cast<TokenId>(i)), {i, i}, {i, i}));
  }
  for (uint64_t i = 1; i <= 9; ++i) {
    EXPECT_EQ(Knows(&answers, Text(50, static_cast<TokenId>(i)), {i, i}, {i, i}), i > 5) << i;
  }
}

TEST(FinishedAnswersTest, WhoKeepsNothingForLongHasNothing) {
  FinishedAnswers answers;
  const Instant start{};
  answers.Advance(start);
  for (TokenId i = 0; i < 12; ++i) answers.Keep(MakeSequence({1}, Text(2000, i)));
  answers.Keep(MakeSequence({1}, Text(50, 40), kBolt, kBolt));
  answers.Advance(start + kAnswersKept / 2);
  answers.Keep(MakeSequence({1}, Text(50, 41), kBolt, kBolt));
  answers.Advance(start + kAnswersKept - std::chrono::milliseconds(1));
  EXPECT_EQ(answers.bytes(), 13 * kPartBytes);
  for (int turn = 0; turn < 2; ++turn) answers.Advance(start + kAnswersKept);
  EXPECT_EQ(answers.bytes(), kPartBytes);
  EXPECT_TRUE(Knows(&answers, Text(50, 40), kBolt, kBolt)) << "with the later one";
  answers.Advance(start + 2 * kAnswersKept);
  EXPECT_EQ(answers.bytes(), 0);
  EXPECT_EQ(answers.tokens(), 0);
}

TEST(FinishedAnswersTest, IsIndexedStepByStep) {
  FinishedAnswers answers;
  for (uint64_t i = 1; i <= 3; ++i) answers.Keep(MakeSequence({}, Text(3000), {i, i}, {i, i}));
  int64_t left = answers.unindexed();
  EXPECT_GE(left, 9000);
  for (; left > 0; left = answers.unindexed()) {
    answers.BeginStep();
    EXPECT_EQ(left - answers.unindexed(), std::min<int64_t>(left, kAnswersIndexedInStep));
  }
  answers.BeginStep();
  EXPECT_TRUE(Knows(&answers, Text(3000), {3, 3}, {3, 3}));
}

// The bytes that the allocator has handed out.
int64_t HandedOut() { return static_cast<int64_t>(mallinfo2().uordblks); }

TEST(FinishedAnswersTest, ItsMemoryIsWhatItSays) {
  if (HandedOut() == 0) GTEST_SKIP() << "this allocator does not count";
  EXPECT_EQ(kPartBytes, 16384 + 8192 + 16);
  constexpr uint64_t kOwners = 40;
  std::vector<Sequence> sequences;
  for (uint64_t i = 0; i < 4 * kOwners; ++i) {
    const Hash128 owner{1 + i % kOwners, 0}, domain{i % 80, 0};
    sequences.push_back(MakeSequence({1}, Text(i % 7 == 0 ? 8000 : 300), owner, domain));
  }
  const int64_t before = HandedOut();
  auto answers = std::make_unique<FinishedAnswers>();
  for (const Sequence& sequence : sequences) {
    answers->Keep(sequence);
    answers->BeginStep();
  }
  const int64_t parts = answers->bytes() / kPartBytes;
  EXPECT_GE(parts, 80);
  const int64_t others = HandedOut() - before - answers->bytes();
  EXPECT_GE(others, 0);
  EXPECT_LE(others, 80 * 250 + 40 * 250 + parts * 120) << "texts, owners, the order of parts";
  answers.reset();
  EXPECT_LE(HandedOut() - before, 40 * 200) << "what the allocator keeps for the next";
}

// What it has is counted however it goes, and never more than it may be.
TEST(FinishedAnswersTest, ItsMemoryIsBoundedWhateverComes) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const FinishedAnswersLimits limits = {.bytes = kPartBytes * random.Between(1, 30),
                                          .owner_bytes = kPartBytes * random.Between(1, 12),
                                          .text_parts = static_cast<int32_t>(random.Between(1, 6))};
    FinishedAnswers answers(limits);
    Instant now{};
    for (int i = 0; i < 2000; ++i) {
      const auto owner = static_cast<uint64_t>(random.Between(0, 4));
      const auto domain = static_cast<uint64_t>(random.Between(0, 3));
      const int64_t longest = random.Chance(0.1) ? 10'000 : 300;
      const Sequence sequence = MakeSequence(
          Text(static_cast<int32_t>(random.Between(1, 100)), 0),
          Text(static_cast<int32_t>(random.Between(1, longest)), i), {owner, 0}, {domain, 0});
      answers.Keep(sequence);
      ASSERT_LE(answers.bytes(), limits.bytes);
      if (owner != 0 && sequence.output_tokens() >= 20) {
        const auto text = Part(sequence.tokens, sequence.total() - 13, 13);
        ASSERT_TRUE(Knows(&answers, text, {owner, 0}, {domain, 0}));
      }
      if (random.Chance(0.02)) now += kAnswersKept * random.Between(0, 2);
      answers.Advance(now);
    }
    for (int turn = 0; turn < 30; ++turn) answers.Advance(now + kAnswersKept);
    EXPECT_EQ(answers.bytes(), 0);
    EXPECT_EQ(answers.tokens(), 0);
    EXPECT_EQ(answers.unindexed(), 0);
  }
}

// Tokens of equal keys are looked at no longer than others, of which some are still found.
TEST(FinishedAnswersTest, TextsThatLookAlikeCostNoMore) {
  FinishedAnswers answers;
  const std::vector<TokenId> alike(kAnswerTokensMax, 5);
  for (int i = 0; i < 16; ++i) answers.Keep(MakeSequence({}, alike));
  while (answers.unindexed() > 0) answers.BeginStep();
  // Three equal ones before each place, but never more: every place is looked at.
  std::vector<TokenId> triples;
  for (TokenId i = 0; triples.size() < kAnswerTokensMax; ++i) {
    triples.insert(triples.end(), {1'000 + i, 6, 6, 6});
  }
  for (int i = 0; i < 4; ++i) answers.Keep(MakeSequence({}, triples, kBolt, kBolt));
  while (answers.unindexed() > 0) answers.BeginStep();
  constexpr size_t kRows = 32;
  std::vector<int> found(kRows);
  for (int step = 0; step < 16; ++step) {
    answers.BeginStep();
    size_t in_step = 0;
    for (size_t row = 0; row < kRows; ++row) {
      std::vector<TokenId> guesses;
      answers.Guess(MakeSequence({9}, {6, 6, 6}, kBolt, kBolt), 2, &guesses);
      found[row] += guesses.empty() ? 0 : 1;
      in_step += guesses.empty() ? 0 : 1;
    }
    EXPECT_GT(in_step, 0u);
    EXPECT_LE(in_step, size_t{kAnswerLooksInStep / (kLooksOfEntry * PartIndex::kPlacesMax)} + 1)
        << "then the step has had enough";
  }
  for (size_t row = 0; row < kRows; ++row) EXPECT_GE(found[row], 1) << row << " has its turn";
  EXPECT_THAT(Guess(&answers, MakeSequence({5, 5}, {5, 5}), 4), ElementsAre(5))
      << "the latest place, behind which a part ends";
}

// What steps of one pipeline leave over is not what others ask.
TEST(FinishedAnswersTest, EachPipelineHasItsTurns) {
  FinishedAnswers answers;
  const std::vector<TokenId> text = Text(kAnswerTokensMax);
  for (int i = 0; i < 16; ++i) answers.Keep(MakeSequence({1}, text));
  while (answers.unindexed() > 0) answers.BeginStep();
  Sequence question = MakeSequence({1}, Part(text, 3000, 10));
  std::vector<bool> of_busy(32), of_idle;
  for (int step = 0; step < 16; ++step) {
    answers.BeginStep();
    question.pipeline = 0;
    std::vector<TokenId> guesses;
    for (size_t row = 0; row < of_busy.size(); ++row) {
      guesses.clear();
      answers.Guess(question, 2, &guesses);
      if (!guesses.empty()) of_busy[row] = true;
    }
    answers.BeginStep();
    question.pipeline = 1;
    guesses.clear();
    answers.Guess(question, 2, &guesses);
    of_idle.push_back(!guesses.empty());
  }
  EXPECT_THAT(of_busy, testing::Each(true));
  EXPECT_THAT(of_idle, testing::Each(true));
}

}  // namespace
}  // namespace tutti::coordinator
