#include "coordinator/steps/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Sequence MakeSequence(std::vector<TokenId> tokens, uint64_t id = 1) {
  Sequence sequence;
  sequence.request.id = RequestId(id);
  sequence.prompt_tokens = 1;
  sequence.tokens = std::move(tokens);
  return sequence;
}

std::vector<TokenId> Guess(PromptLookup* lookup, const Sequence& sequence, int32_t most) {
  std::vector<TokenId> guesses = {77};  // others'
  lookup->Guess(sequence, most, &guesses);
  EXPECT_EQ(guesses.front(), 77);
  guesses.erase(guesses.begin());
  return guesses;
}

TEST(PromptLookupTest, WhatFollowedFollowsAgain) {
  PromptLookup lookup(1000);
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3, 4, 5, 6, 1, 2, 3}), 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(Guess(&lookup, MakeSequence({9, 1, 2, 3, 4, 5, 2, 1, 2}, 2), 3), IsEmpty())
      << "two tokens are too few";
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3}, 3), 3), IsEmpty());
  EXPECT_THAT(Guess(&lookup, MakeSequence({1}, 4), 3), IsEmpty());
}

TEST(PromptLookupTest, TheLongestEqualTextCountsThenTheLatest) {
  PromptLookup lookup(1000);
  const std::vector<TokenId> text = {5, 1, 2, 3, 10, 6, 1, 2, 3, 20, 7, 1, 2, 3, 30};
  auto with = [&](std::vector<TokenId> end, uint64_t id) {
    std::vector<TokenId> tokens = text;
    tokens.insert(tokens.end(), end.begin(), end.end());
    return Guess(&lookup, MakeSequence(tokens, id), 1);
  };
  EXPECT_THAT(with({5, 1, 2, 3}, 1), ElementsAre(10));
  EXPECT_THAT(with({6, 1, 2, 3}, 2), ElementsAre(20));
  EXPECT_THAT(with({8, 1, 2, 3}, 3), ElementsAre(30));
}

TEST(PromptLookupTest, ATextThatRepeatsItselfGoesOnWithItsGuesses) {
  PromptLookup lookup(1000);
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3, 4, 1, 2, 3, 4}), 10),
              ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, 1, 2));
  EXPECT_THAT(Guess(&lookup, MakeSequence({7, 7, 7, 7}, 2), 4), ElementsAre(7, 7, 7, 7));
}

// The guess is always one that a search through all of the text finds, and there is one where that
// finds one.
TEST(PromptLookupTest, FindsWhatASearchFinds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    PromptLookup lookup(1 << 20);
    std::vector<TokenId> tokens;
    int64_t found = 0;
    for (int step = 0; step < 1500; ++step) {
      tokens.push_back(static_cast<TokenId>(random.Between(0, 6 + static_cast<int64_t>(seed))));
      const Sequence sequence = MakeSequence(tokens);
      const auto guesses = Guess(&lookup, sequence, 1);
      const auto size = static_cast<int64_t>(tokens.size());
      std::set<TokenId> right;
      for (int64_t place = TextIndex::kEqualMin; place < size; ++place) {
        if (std::equal(tokens.end() - TextIndex::kEqualMin, tokens.end(),
                       tokens.begin() + place - TextIndex::kEqualMin)) {
          right.insert(tokens[static_cast<size_t>(place)]);
        }
      }
      ASSERT_EQ(guesses.empty(), right.empty()) << seed << ", " << step;
      if (guesses.empty()) continue;
      ASSERT_TRUE(right.contains(guesses.front())) << seed << ", " << step;
      ++found;
    }
    EXPECT_GT(found, 40) << seed;
  }
}

TEST(PromptLookupTest, ALongPromptIsIndexedStepByStep) {
  PromptLookup lookup(1 << 20);
  std::vector<TokenId> tokens(3 * kIndexedEach);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i % 2999);
  const Sequence sequence = MakeSequence(tokens);
  EXPECT_THAT(Guess(&lookup, sequence, 1), ElementsAre(tokens.size() % 2999));
  EXPECT_EQ(lookup.tokens(), kIndexedEach);
  Guess(&lookup, sequence, 1);
  Guess(&lookup, sequence, 1);
  Guess(&lookup, sequence, 1);
  EXPECT_EQ(lookup.tokens(), 3 * kIndexedEach);
}

TEST(PromptLookupTest, ItsMemoryIsBoundedAndGivenBack) {
  PromptLookup lookup(20);
  const Sequence first = MakeSequence({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, 1);
  const Sequence second = MakeSequence({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, 2);
  const Sequence third = MakeSequence({1, 2, 3, 4, 1, 2, 3}, 3);
  EXPECT_THAT(Guess(&lookup, first, 1), ElementsAre(4));
  EXPECT_THAT(Guess(&lookup, second, 1), ElementsAre(4)) << "a part of it is known";
  EXPECT_EQ(lookup.tokens(), 20);
  EXPECT_THAT(Guess(&lookup, third, 1), IsEmpty());
  lookup.Forget(third);
  lookup.Forget(first);
  EXPECT_EQ(lookup.tokens(), 8);
  EXPECT_THAT(Guess(&lookup, third, 1), ElementsAre(4));
  lookup.Forget(second);
  lookup.Forget(third);
  EXPECT_EQ(lookup.tokens(), 0);
  Sequence longest = MakeSequence(std::vector<TokenId>(kLookupTokensMax + 1, 5), 4);
  EXPECT_THAT(Guess(&lookup, longest, 1), IsEmpty());
}

}  // namespace
}  // namespace tutti::coordinator
