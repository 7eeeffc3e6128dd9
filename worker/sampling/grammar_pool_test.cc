#include "worker/sampling/grammar_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/limits.h"
#include "worker/sampling/grammar_cache.h"
#include "worker/sampling/mask_maker.h"
#include "worker/sampling/toy_vocabulary_testing.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kTokens = 200;
constexpr TokenId kStop = 120;  // a token of text that a request may end with

TokenId Char(char c) { return 1 + c - ' '; }

std::vector<TokenId> Ids(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(Char(c));
  return ids;
}

v1::SequenceGrammar Source(v1::GrammarKind kind, const std::string& text) {
  v1::SequenceGrammar grammar;
  grammar.set_kind(kind);
  grammar.set_text(text);
  return grammar;
}
v1::SequenceGrammar Regex(const std::string& text) { return Source(v1::GRAMMAR_KIND_REGEX, text); }

std::vector<TokenId> Allowed(std::span<const uint32_t> mask) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < static_cast<TokenId>(mask.size() * 32); ++id) {
    if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

class GrammarPoolTest : public ::testing::TestWithParam<GrammarPool::Runs> {
 protected:
  GrammarPoolTest() : pool_(GetParam()) {
    EXPECT_TRUE(pool_.SetVocabulary(ToyVocabulary(kTokens), kTokens).ok());
  }
  std::vector<TokenId> AllowedBehind(std::string_view text, const v1::SequenceGrammar& grammar,
                                     const v1::SequenceSampling& sampling = {}) {
    const auto answer = pool_.Begin(grammar, sampling);
    answer->Ask(Ids(text));
    const auto mask = answer->Take(nullptr);
    EXPECT_TRUE(mask.ok()) << mask.status();
    return mask.ok() ? Allowed(*mask) : std::vector<TokenId>();
  }
  absl::Status WhyNot(std::string_view text, const v1::SequenceGrammar& grammar) {
    const auto answer = pool_.Begin(grammar, {});
    answer->Ask(Ids(text));
    return answer->Take(nullptr).status();
  }

  GrammarPool pool_;
};

TEST_P(GrammarPoolTest, MasksFollowTheOutput) {
  const auto answer = pool_.Begin(Regex("ab?"), {});
  answer->Ask({});
  EXPECT_THAT(Allowed(*answer->Take(nullptr)), ElementsAre(Char('a')));
  const std::vector<TokenId> output = Ids("ab");
  answer->Ask(std::span(output).first(1));
  EXPECT_THAT(Allowed(*answer->Take(nullptr)), ElementsAre(kToyEnd, Char('b')));
  answer->Ask(output);
  EXPECT_THAT(Allowed(*answer->Take(nullptr)), ElementsAre(kToyEnd));
}

TEST_P(GrammarPoolTest, ATextThatIsThereAlreadyIsFedAsAWhole) {
  EXPECT_THAT(AllowedBehind("{\"a\":12", Source(v1::GRAMMAR_KIND_JSON_OBJECT, "")),
              ::testing::Contains(Char('}')));
  EXPECT_THAT(AllowedBehind("{", Source(v1::GRAMMAR_KIND_JSON_OBJECT, "")),
              ::testing::Not(::testing::Contains(kToyEnd)));
}

// Tokens that end a request's output come where the text may end, and not before its least length
// unless nothing else may.
TEST_P(GrammarPoolTest, EndsHaveTheirPlace) {
  v1::SequenceSampling sampling;
  sampling.add_end_ids(kToyEnd);
  sampling.add_end_ids(kStop);
  EXPECT_THAT(AllowedBehind("", Regex("a*"), sampling), ::testing::IsSupersetOf({kToyEnd, kStop}));
  EXPECT_THAT(AllowedBehind("", Regex("a+"), sampling), ElementsAre(Char('a')));
  sampling.set_min_tokens(2);
  EXPECT_THAT(AllowedBehind("a", Regex("a*"), sampling), ElementsAre(Char('a')));
  EXPECT_THAT(AllowedBehind("aa", Regex("a*"), sampling), ElementsAre(kToyEnd, Char('a'), kStop));
  EXPECT_THAT(AllowedBehind("a", Regex("a"), sampling), ElementsAre(kToyEnd, kStop));
}

TEST_P(GrammarPoolTest, EndsThatAreIgnoredComeLast) {
  v1::SequenceGrammar late = Regex("a{0,2}");
  late.set_ends_late(true);
  EXPECT_THAT(AllowedBehind("", late), ElementsAre(Char('a')));
  EXPECT_THAT(AllowedBehind("aa", late), ElementsAre(kToyEnd));
  v1::SequenceSampling sampling;
  sampling.add_end_ids(kToyEnd);
  sampling.add_end_ids(kStop);
  sampling.set_min_tokens(3);
  EXPECT_THAT(AllowedBehind("aa", late, sampling), ElementsAre(kToyEnd, kStop));
}

TEST_P(GrammarPoolTest, APrefaceComesBefore) {
  v1::SequenceGrammar thinking = Regex("[ab]");
  thinking.set_preface_close(")");
  EXPECT_THAT(AllowedBehind("", thinking), ::testing::IsSupersetOf(Ids("abz)")));
  EXPECT_THAT(AllowedBehind("z)", thinking), ::testing::IsSupersetOf(Ids("ab")));
  EXPECT_THAT(AllowedBehind("z)", thinking), ::testing::Not(::testing::Contains(Char('z'))));
  thinking.set_preface_open("(");
  EXPECT_THAT(AllowedBehind("", thinking), ::testing::IsSupersetOf(Ids("ab(")));
  EXPECT_THAT(AllowedBehind("", thinking), ::testing::Not(::testing::Contains(Char('z'))));
}

TEST_P(GrammarPoolTest, SpecialTokensComeWhereTheyAreAskedFor) {
  v1::Vocabulary vocabulary = ToyVocabulary(kTokens);
  vocabulary.add_special_ids(Char('a'));
  ASSERT_TRUE(pool_.SetVocabulary(vocabulary, kTokens).ok());
  const auto ebnf = [](const std::string& rule) { return Source(v1::GRAMMAR_KIND_EBNF, rule); };
  EXPECT_THAT(AllowedBehind("", ebnf("root ::= %special \"a\" | \"b\"")),
              ElementsAre(Char('a'), Char('b')));
  EXPECT_THAT(AllowedBehind("", ebnf("root ::= \"a\" | \"b\"")), ElementsAre(Char('b')));
}

TEST_P(GrammarPoolTest, SaysWhyAnAnswerCannotGoOn) {
  EXPECT_THAT(std::string(WhyNot("abx", Regex("ab*")).message()),
              HasSubstr("at token 2 of the output"));
  EXPECT_TRUE(absl::IsInvalidArgument(WhyNot("b", Regex("a"))));
  const absl::Status none = WhyNot("a", Regex("a\xC3\xA4"));
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("position 1 of the output"));
  EXPECT_THAT(std::string(WhyNot("", Regex("(")).message()),
              HasSubstr("the grammar cannot be made"));
  EXPECT_TRUE(absl::IsInvalidArgument(WhyNot("", Source(v1::GRAMMAR_KIND_UNSPECIFIED, "a"))));
}

TEST_P(GrammarPoolTest, KnowsAVocabularyWhenItSeesOne) {
  v1::Vocabulary longer = ToyVocabulary(kTokens);
  longer.mutable_text()->push_back('x');
  EXPECT_TRUE(absl::IsInvalidArgument(pool_.SetVocabulary(longer, kTokens)));
  EXPECT_TRUE(absl::IsInvalidArgument(pool_.SetVocabulary(ToyVocabulary(kTokens), kTokens - 1)));
  v1::Vocabulary ends = ToyVocabulary(kTokens);
  ends.add_end_ids(kTokens);
  EXPECT_TRUE(absl::IsInvalidArgument(pool_.SetVocabulary(ends, kTokens)));
  ends.set_end_ids(1, -1);
  EXPECT_TRUE(absl::IsInvalidArgument(pool_.SetVocabulary(ends, kTokens)));
  ends = ToyVocabulary(kTokens);
  ends.add_special_ids(kTokens);
  EXPECT_TRUE(absl::IsInvalidArgument(pool_.SetVocabulary(ends, kTokens)));
  // The last good one stays, and another takes its place.
  EXPECT_THAT(AllowedBehind("", Regex("a")), ElementsAre(Char('a')));
  EXPECT_TRUE(pool_.SetVocabulary(ToyVocabulary(kTokens + 100), kTokens + 100).ok());
  EXPECT_GT(AllowedBehind("", Source(v1::GRAMMAR_KIND_JSON_OBJECT, "")).size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, GrammarPoolTest,
                         ::testing::Values(GrammarPool::Runs::kInline,
                                           GrammarPool::Runs::kOnThread));

TEST(GrammarPool, WithoutAVocabularyNoAnswerCanBeBegun) {
  GrammarPool pool(GrammarPool::Runs::kOnThread);
  const auto answer = pool.Begin(Regex("a"), {});
  answer->Ask({});
  EXPECT_TRUE(absl::IsFailedPrecondition(answer->Take(nullptr).status()));
}

// Many answers at once, of which some end while their masks are made.
TEST(GrammarPool, AnswersMayEndWhileTheirMasksAreMade) {
  GrammarPool pool(GrammarPool::Runs::kOnThread);
  ASSERT_TRUE(pool.SetVocabulary(ToyVocabulary(kTokens), kTokens).ok());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<GrammarAnswer>> answers;
    for (int i = 0; i < 32; ++i) {
      v1::SequenceSampling sampling;
      SetToyGrammar(i, &sampling);
      answers.push_back(pool.Begin(sampling.grammar(), sampling));
      answers.back()->Ask({});
    }
    for (size_t i = 0; i < answers.size(); i += 2) answers[i].reset();
    for (size_t i = 1; i < answers.size(); i += 2) EXPECT_TRUE(answers[i]->Take(nullptr).ok());
  }
}

// An automaton that makes room for others says the same when it is made again.
TEST(MaskMakerTest, ForgettingChangesNoMask) {
  const std::vector<v1::SequenceGrammar> sources = {Regex("[ab]{3,9}"), Regex("(a|bb)*"),
                                                    Source(v1::GRAMMAR_KIND_JSON_OBJECT, "")};
  const std::vector<std::vector<TokenId>> outputs = {Ids("ababa"), Ids("abbab"), Ids("{\"a\":1")};
  const auto masks = [&](int64_t bytes_max) {
    MaskMaker maker({.bytes = bytes_max, .grammars = 100});
    maker.SetVocabulary(ToyVocabulary(kTokens), kTokens);
    std::vector<std::shared_ptr<MaskedAnswer>> answers;
    for (const v1::SequenceGrammar& source : sources) {
      answers.push_back(std::make_shared<MaskedAnswer>());
      answers.back()->source = source;
    }
    std::vector<std::vector<uint32_t>> all;
    for (size_t t = 0; t <= outputs[0].size(); ++t) {
      for (size_t a = 0; a < answers.size(); ++a) {
        maker.Make(answers[a],
                   t == 0 ? std::span<const TokenId>() : std::span(outputs[a]).subspan(t - 1, 1));
        EXPECT_TRUE(answers[a]->status.ok()) << answers[a]->status;
        all.push_back(answers[a]->mask);
      }
    }
    for (const auto& answer : answers) maker.Forget(answer);
    return all;
  };
  EXPECT_EQ(masks(1), masks(int64_t{1} << 40));
}

// Nor does what is begun and left.
TEST(MaskMakerTest, GrammarsOfAnswersThatLeftAreBounded) {
  MaskMaker maker({.bytes = int64_t{1} << 40, .grammars = 8});
  maker.SetVocabulary(ToyVocabulary(kTokens), kTokens);
  for (int i = 0; i < 100; ++i) {
    const auto answer = std::make_shared<MaskedAnswer>();
    answer->source = Regex("a{" + std::to_string(i + 1) + "}");
    EXPECT_TRUE(maker.Begin(answer));
    i % 2 == 0 ? maker.Forget(answer) : maker.Release(answer);
  }
  metrics::Exposition exposition;
  const MaskMaker::Named named[] = {{"one", &maker}};
  MaskMaker::Write(named, &exposition);
  EXPECT_THAT(exposition.Release(), HasSubstr("tutti_worker_grammars 8\n"));
}

// What is read again after a loss may take longer than the executor may be silent.
TEST(MaskMakerTest, TellsThatItMovesWhileALongOutputIsReadAgain) {
  MaskMaker maker({.bytes = kGrammarBytesMax, .grammars = kGrammarsKept});
  maker.SetVocabulary(ToyVocabulary(kTokens), kTokens);
  const auto answer = std::make_shared<MaskedAnswer>();
  answer->source = Regex("a*");
  int told = 0;
  maker.Make(answer, std::vector<TokenId>(4 * kFedTokensPerTell, Char('a')), [&] { ++told; });
  EXPECT_TRUE(answer->status.ok()) << answer->status;
  EXPECT_EQ(told, 4);
  maker.Forget(answer);
}

TEST(GrammarCacheTest, EqualSourcesShareAnAutomatonAndOldOnesGo) {
  GrammarCache cache({.bytes = int64_t{1} << 40, .grammars = 2});
  EXPECT_TRUE(absl::IsFailedPrecondition(cache.Find(Regex("a")).status()));
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  for (TokenId id = 0; id < kTokens; ++id) texts.push_back(ToyText(id));
  views.assign(texts.begin(), texts.end());
  const std::vector<TokenId> ends = {kToyEnd};
  cache.SetVocabulary(std::make_shared<const grammar::TokenTrie>(
      *grammar::TokenTrie::Create(views, ends, kTokens)));
  const auto first = *cache.Find(Regex("a"));
  v1::SequenceGrammar late = Regex("a");
  late.set_ends_late(true);
  EXPECT_EQ(*cache.Find(late), first);
  EXPECT_NE(*cache.Find(Regex("b")), first);
  v1::SequenceGrammar blanks = Regex("a");
  blanks.set_blanks(true);
  EXPECT_NE(*cache.Find(blanks), first);
  EXPECT_EQ(cache.size(), 3);
  EXPECT_FALSE(cache.Trim(first.get())) << "nobody holds the others";
  EXPECT_EQ(cache.size(), 2);
  EXPECT_EQ(*cache.Find(Regex("a")), first) << "it is held, and stays";
}

}  // namespace
}  // namespace tutti::worker
