#include "text/byte_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "text/byte_alphabet.h"
#include "text/limits.h"

namespace tutti::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Vocabulary::Entry> Bytes() {
  std::vector<Vocabulary::Entry> entries;
  for (int byte = 0; byte < 256; ++byte) {
    entries.push_back({std::string(1, static_cast<char>(byte)), byte});
  }
  return entries;
}

// A vocabulary in which the pairs of `merges` (as text) are learned in order, ids from 256.
BytePairs Learned(const std::vector<std::pair<std::string, std::string>>& merges,
                  bool whole_words_first = false) {
  std::vector<Vocabulary::Entry> entries = Bytes();
  for (const auto& [left, right] : merges) {
    entries.push_back({left + right, static_cast<TokenId>(entries.size())});
  }
  auto vocabulary = Vocabulary::Create(entries);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
  BytePairs::Rules rules;
  rules.whole_words_first = whole_words_first;
  for (const auto& [left, right] : merges) {
    const auto rank = static_cast<uint32_t>(rules.merges.size());
    rules.merges.push_back(
        {*vocabulary->Find(left), *vocabulary->Find(right), *vocabulary->Find(left + right), rank});
  }
  return BytePairs(*std::move(vocabulary), std::move(rules));
}

std::vector<TokenId> Encode(const BytePairs& pairs, std::string_view text) {
  std::vector<TokenId> ids;
  pairs.Encode(text, &ids);
  return ids;
}

// The definition, step by step: the best ranked pair, of equal ones the leftmost.
std::vector<std::string> Naive(const std::vector<std::pair<std::string, std::string>>& merges,
                               std::string_view text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first == parts[i] && merges[rank].second == parts[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BytePairsTest, MergesInTheOrderLearned) {
  const BytePairs pairs = Learned({{"b", "c"}, {"a", "b"}, {"a", "bc"}});
  EXPECT_THAT(Encode(pairs, "abc"), ElementsAre(258));  // bc first, then a + bc
  EXPECT_THAT(Encode(pairs, "ab"), ElementsAre(257));
  EXPECT_THAT(Encode(pairs, ""), ElementsAre());
  EXPECT_THAT(Encode(pairs, "\xFF"), ElementsAre(255));
}

TEST(BytePairsTest, OfEqualPairsTheLeftmostComesFirst) {
  const BytePairs pairs = Learned({{"a", "a"}});
  EXPECT_THAT(Encode(pairs, "aaa"), ElementsAre(256, 'a'));
}

TEST(BytePairsTest, WholeWordsFirstWhereAsked) {
  // "abc" is a token that merging never reaches.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"}, {"b", "c"}, {"a", "bc"}};
  EXPECT_THAT(Encode(Learned(merges), "abc"), ElementsAre(256, 'c'));
  EXPECT_THAT(Encode(Learned(merges, /*whole_words_first=*/true), "abc"), ElementsAre(258));
}

TEST(BytePairsTest, EveryLengthAgreesWithTheDefinition) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<std::string, std::string>> merges;
    std::vector<std::string> tokens = {"a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&] {
        return tokens[static_cast<size_t>(
            random.Between(0, static_cast<int64_t>(tokens.size()) - 1))];
      };
      const std::string left = pick(), right = pick();
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    const BytePairs pairs = Learned(merges);
    for (const int64_t length : {1, 2, 7, 31, 32, 33, 64, 150}) {
      std::string text;
      for (int64_t i = 0; i < length; ++i)
        text.push_back(static_cast<char>(random.Between('a', 'd')));
      std::vector<std::string> got;
      for (const TokenId id : Encode(pairs, text)) got.emplace_back(pairs.vocabulary().Bytes(id));
      ASSERT_EQ(got, Naive(merges, text)) << "round " << round << ": " << text;
    }
  }
}

TEST(BytePairsTest, ALongPieceTakesNoQuadraticTime) {
  const BytePairs pairs = Learned({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  // Quadratic would be an hour, beyond the test's time limit.
  EXPECT_EQ(Encode(pairs, std::string(1'000'000, 'a')).size(), 125'000u);
}

TEST(VocabularyTest, IdsMayHaveGaps) {
  std::vector<Vocabulary::Entry> entries = Bytes();
  entries.push_back({"xyz", 1000});
  auto vocabulary = Vocabulary::Create(entries);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->size(), 1001);
  EXPECT_EQ(vocabulary->Bytes(1000), "xyz");
  EXPECT_EQ(vocabulary->Bytes(999), "");
  EXPECT_EQ(vocabulary->Bytes(-1), "");
  EXPECT_EQ(vocabulary->Bytes(1001), "");
  EXPECT_EQ(vocabulary->Find("xyz"), 1000);
  EXPECT_EQ(vocabulary->Find("xy"), std::nullopt);
}

TEST(VocabularyTest, Refuses) {
  const auto message = [](std::vector<Vocabulary::Entry> entries) {
    const auto result = Vocabulary::Create(std::move(entries));
    return result.ok() ? "accepted" : std::string(result.status().message());
  };
  auto entries = Bytes();
  entries.push_back({"x", 256});
  EXPECT_THAT(message(entries), HasSubstr("token 256 repeats another one"));
  entries = Bytes();
  entries.push_back({"xy", 5});
  EXPECT_THAT(message(entries), HasSubstr("two tokens have the id 5"));
  entries = Bytes();
  entries.push_back({"xy", static_cast<TokenId>(kTokenIdMax + 1)});
  EXPECT_THAT(message(entries), HasSubstr("outside"));
  entries = Bytes();
  entries.push_back({"xy", -1});
  EXPECT_THAT(message(entries), HasSubstr("outside"));
  entries = Bytes();
  entries.erase(entries.begin() + 0x41);
  EXPECT_THAT(message(entries), HasSubstr("no token stands for byte 0x41"));
  EXPECT_THAT(message({}), HasSubstr("0x00"));
}

TEST(ByteAlphabetTest, SpellsEveryByteAndReadsItBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(BytesFromAlphabet(AlphabetFromBytes(all)), all);
  EXPECT_EQ(AlphabetFromBytes(" the\n"), "\u0120the\u010a");
  EXPECT_EQ(BytesFromAlphabet("\u0120the"), " the");
  EXPECT_EQ(BytesFromAlphabet(" "), std::nullopt);
  EXPECT_EQ(BytesFromAlphabet("\u2581"), std::nullopt);
  EXPECT_EQ(BytesFromAlphabet("\u0144"), std::nullopt);  // one behind the last
  EXPECT_EQ(BytesFromAlphabet("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace tutti::text
