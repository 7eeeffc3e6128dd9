#include "coordinator/steps/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
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
  lookup->BeginStep();
  lookup->Guess(sequence, most, &guesses);
  EXPECT_EQ(guesses.front(), 77);
  guesses.erase(guesses.begin());
  return guesses;
}

TEST(PromptLookupTest, WhatFollowedFollowsAgain) {
  PromptLookup lookup(kLookupBytesOfAll);
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3, 4, 5, 6, 1, 2, 3}), 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(Guess(&lookup, MakeSequence({9, 1, 2, 3, 4, 5, 2, 1, 2}, 2), 3), IsEmpty())
      << "two tokens are too few";
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3}, 3), 3), IsEmpty());
  EXPECT_THAT(Guess(&lookup, MakeSequence({1}, 4), 3), IsEmpty());
}

TEST(PromptLookupTest, TheLongestEqualTextCountsThenTheLatest) {
  PromptLookup lookup(kLookupBytesOfAll);
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
  PromptLookup lookup(kLookupBytesOfAll);
  EXPECT_THAT(Guess(&lookup, MakeSequence({1, 2, 3, 4, 1, 2, 3, 4}), 10),
              ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, 1, 2));
  EXPECT_THAT(Guess(&lookup, MakeSequence({7, 7, 7, 7}, 2), 4), ElementsAre(7, 7, 7, 7));
}

// The guess is always one that a search through all of the text finds, and there is one where that
// finds one.
TEST(PromptLookupTest, FindsWhatASearchFinds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    PromptLookup lookup(kLookupBytesOfAll);
    std::vector<TokenId> tokens;
    const auto add = [&] {
      tokens.push_back(static_cast<TokenId>(random.Between(0, 6 + static_cast<int64_t>(seed))));
    };
    // Every other text is of several parts.
    while (seed % 2 == 0 && tokens.size() < 2 * TextIndex::kPartTokens) add();
    for (int i = 0; i < 2; ++i) Guess(&lookup, MakeSequence(tokens), 1);
    int64_t found = 0;
    for (int step = 0; step < 1500; ++step) {
      add();
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

// So many tokens, of which none stands twice within 2,999.
std::vector<TokenId> LongText(int32_t tokens) {
  std::vector<TokenId> text(static_cast<size_t>(tokens));
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<TokenId>(i % 2999);
  return text;
}

TEST(PromptLookupTest, ALongPromptIsIndexedStepByStep) {
  PromptLookup lookup(kLookupBytesOfAll);
  const Sequence sequence = MakeSequence(LongText(3 * kIndexedInStep));
  EXPECT_THAT(Guess(&lookup, sequence, 1), ElementsAre(sequence.total() % 2999));
  EXPECT_EQ(lookup.tokens(), kIndexedInStep);
  Guess(&lookup, sequence, 1);
  Guess(&lookup, sequence, 1);
  Guess(&lookup, sequence, 1);
  EXPECT_EQ(lookup.tokens(), 3 * kIndexedInStep);
}

// What a step may take is for all that ask in it, but for what answers grow by.
TEST(PromptLookupTest, SequencesOfAStepAreIndexedByTurns) {
  PromptLookup lookup(kLookupBytesOfAll);
  const Sequence first = MakeSequence(LongText(3 * kIndexedInStep / 2), 1);
  const Sequence second = MakeSequence(LongText(3 * kIndexedInStep / 2), 2);
  std::vector<TokenId> guesses;
  const auto indexed_in_step = [&] {
    const int64_t before = lookup.tokens();
    lookup.BeginStep();
    lookup.Guess(first, 1, &guesses);
    lookup.Guess(second, 1, &guesses);
    return lookup.tokens() - before;
  };
  EXPECT_EQ(indexed_in_step(), kIndexedInStep + kIndexedLeast);
  EXPECT_EQ(indexed_in_step(), kIndexedInStep);
  EXPECT_EQ(indexed_in_step(), kIndexedInStep - kIndexedLeast);
  EXPECT_EQ(indexed_in_step(), 0);
}

// The bytes that the allocator has handed out.
int64_t Allocated() { return static_cast<int64_t>(mallinfo2().uordblks); }

TEST(PromptLookupTest, ItsMemoryIsWhatItSays) {
  if (Allocated() == 0) GTEST_SKIP() << "this allocator does not count";
  std::vector<Sequence> sequences;
  for (uint64_t id = 1; id <= 40; ++id) {
    // One is long, most are short, some fill their last part.
    const int32_t tokens = id == 1 ? 60'000 : id % 4 == 0 ? TextIndex::kPartTokens : 150;
    sequences.push_back(MakeSequence(LongText(tokens), id));
  }
  const int64_t before = Allocated();
  auto lookup = std::make_unique<PromptLookup>(kLookupBytesOfAll);
  for (Sequence& sequence : sequences) {
    for (int step = 0; step < 40; ++step) Guess(lookup.get(), sequence, 1);
  }
  const int64_t parts = (60'000 + TextIndex::kPartTokens - 1) / TextIndex::kPartTokens + 39;
  EXPECT_EQ(lookup->bytes(), parts * 16384);
  const int64_t others = Allocated() - before - lookup->bytes();
  EXPECT_GE(others, 0);
  EXPECT_LE(others, 40 * 200 + parts * 40) << "places of sequences, pointers, the allocator's own";
  lookup.reset();
  EXPECT_LE(Allocated() - before, 40 * 200) << "what the allocator keeps for the next";
}

TEST(PromptLookupTest, ItsMemoryIsBoundedAndGivenBack) {
  PromptLookup lookup(3 * TextIndex::kPartBytes + 1);
  const Sequence first = MakeSequence(LongText(4000), 1);
  const Sequence second = MakeSequence(LongText(4000), 2);
  const Sequence third = MakeSequence({1, 2, 3, 4, 1, 2, 3}, 3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_THAT(Guess(&lookup, first, 1), ElementsAre(4000 % 2999));
    EXPECT_THAT(Guess(&lookup, second, 1), ElementsAre(4000 % 2999)) << "a part of it is known";
  }
  EXPECT_EQ(lookup.tokens(), 4000 + TextIndex::kPartTokens);
  EXPECT_EQ(lookup.bytes(), 3 * TextIndex::kPartBytes);
  EXPECT_THAT(Guess(&lookup, third, 1), IsEmpty());
  lookup.Forget(third);
  lookup.Forget(first);
  EXPECT_EQ(lookup.tokens(), TextIndex::kPartTokens);
  EXPECT_EQ(lookup.bytes(), TextIndex::kPartBytes);
  EXPECT_THAT(Guess(&lookup, third, 1), ElementsAre(4));
  lookup.Forget(second);
  lookup.Forget(third);
  EXPECT_EQ(lookup.tokens(), 0);
  EXPECT_EQ(lookup.bytes(), 0);
  Sequence longest = MakeSequence(std::vector<TokenId>(kLookupTokensMax + 1, 5), 4);
  EXPECT_THAT(Guess(&lookup, longest, 1), IsEmpty());
  EXPECT_EQ(lookup.bytes(), 0);
}

// Texts made to look alike everywhere, and longest ones, are looked at no longer than others.
TEST(PromptLookupTest, TheLatestPlacesAreEnough) {
  PromptLookup lookup(kLookupBytesOfAll);
  const Sequence alike = MakeSequence(std::vector<TokenId>(kLookupTokensMax, 5));
  for (int step = 0; step < kLookupTokensMax / kIndexedInStep; ++step) {
    EXPECT_THAT(Guess(&lookup, alike, 2), ElementsAre(5, 5));
  }
  EXPECT_EQ(lookup.tokens(), kLookupTokensMax);
}

}  // namespace
}  // namespace tutti::coordinator
