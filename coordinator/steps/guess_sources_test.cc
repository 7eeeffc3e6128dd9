#include "coordinator/steps/guess_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Says the same token again and again.
class OneToken : public GuessSource {
 public:
  explicit OneToken(TokenId token) : token_(token) {}
  int32_t Guess(const Sequence&, int32_t most, std::vector<TokenId>* guesses) override {
    ++asked_;
    most_ = most;
    guesses->insert(guesses->end(), static_cast<size_t>(std::min(most, count_)), token_);
    return equal_;
  }
  void Forget(const Sequence&) override { ++forgotten_; }

  const TokenId token_;
  int32_t count_ = kGuessesMax;
  int32_t equal_ = 0;
  int32_t asked_ = 0;
  int32_t most_ = 0;
  int32_t forgotten_ = 0;
};

class GuessSourcesTest : public testing::Test {
 protected:
  GuessSourcesTest() {
    sources_.Use(GuessOrigin::kText, &text_);
    sources_.Use(GuessOrigin::kAnswers, &answers_);
  }
  std::optional<GuessOrigin> Guess(GuessSources::Most most = {8, 8, 8}) {
    guesses_.clear();
    const std::optional<GuessSources::Found> found = sources_.Guess(&sequence_, most, &guesses_);
    if (!found.has_value()) return std::nullopt;
    repeats_ = found->repeats;
    return found->origin;
  }
  // So many verifications of one guess each, all of them right or wrong.
  void Verify(GuessOrigin origin, int times, bool right) {
    for (int i = 0; i < times; ++i) sequence_.PaceOf(origin).OnVerified(1, right ? 1 : 0);
  }

  OneToken text_{1};
  OneToken answers_{2};
  GuessSources sources_;
  Sequence sequence_;
  std::vector<TokenId> guesses_;
  bool repeats_ = false;
};

TEST_F(GuessSourcesTest, OfUnknownOnesTheFirstUnlessAnotherIsLikely) {
  EXPECT_EQ(Guess(), GuessOrigin::kText);
  EXPECT_THAT(guesses_, ElementsAre(1, 1, 1, 1)) << "as many as its pace says";
  EXPECT_EQ(answers_.asked_, 1);
  // A draft model is likely to be right.
  sequence_.stay.drafts = {3, 3, 3};
  EXPECT_EQ(Guess(), GuessOrigin::kDraft);
  EXPECT_THAT(guesses_, ElementsAre(3, 3, 3)) << "all that it said";
  EXPECT_EQ(Guess({8, 8, 2}), GuessOrigin::kDraft);
  EXPECT_THAT(guesses_, ElementsAre(3, 3));
  EXPECT_EQ(Guess({8, 8, 0}), GuessOrigin::kText);
}

TEST_F(GuessSourcesTest, TheFirstLikelyOneIsTakenAndTheOthersAreNotAsked) {
  sequence_.stay.drafts = {3, 3, 3};
  text_.equal_ = kEqualLikely;
  EXPECT_EQ(Guess(), GuessOrigin::kText);
  EXPECT_EQ(answers_.asked_, 0);
  EXPECT_TRUE(repeats_);
  text_.equal_ = kEqualLikely - 1;
  EXPECT_EQ(Guess(), GuessOrigin::kDraft);
  EXPECT_FALSE(repeats_);
  Verify(GuessOrigin::kAnswers, 5, /*right=*/true);
  EXPECT_EQ(Guess(), GuessOrigin::kAnswers);
  Verify(GuessOrigin::kText, 5, /*right=*/true);
  EXPECT_EQ(Guess(), GuessOrigin::kText);
}

TEST_F(GuessSourcesTest, OfUnlikelyOnesThatWhichIsExpectedToBringMost) {
  Verify(GuessOrigin::kText, 2, /*right=*/false);
  EXPECT_EQ(Guess(), GuessOrigin::kAnswers);
  answers_.count_ = 0;
  EXPECT_EQ(Guess(), GuessOrigin::kText);
  sequence_.stay.drafts = {3};
  Verify(GuessOrigin::kDraft, 3, /*right=*/false);
  EXPECT_EQ(Guess(), GuessOrigin::kDraft)
      << "one miss more in the text, and from a worse beginning";
  Verify(GuessOrigin::kDraft, 20, /*right=*/false);
  EXPECT_EQ(Guess(), GuessOrigin::kText);
}

TEST_F(GuessSourcesTest, WhoPausesIsNotAsked) {
  Verify(GuessOrigin::kText, 3, /*right=*/false);
  EXPECT_EQ(Guess(), GuessOrigin::kAnswers);
  EXPECT_EQ(text_.asked_, 0);
  int steps = 1;
  for (; text_.asked_ == 0; ++steps) ASSERT_TRUE(steps < 100 && Guess().has_value());
  EXPECT_EQ(steps, 17) << "the first pause is of 16 steps";
  EXPECT_EQ(text_.most_, 1);
}

TEST_F(GuessSourcesTest, NoneWhereNoneHasAny) {
  text_.count_ = answers_.count_ = 0;
  guesses_ = {9};
  EXPECT_FALSE(sources_.Guess(&sequence_, {8, 8, 8}, &guesses_).has_value());
  EXPECT_THAT(guesses_, ElementsAre(9)) << "those of other sequences";
  sources_.Use(GuessOrigin::kText, nullptr);
  EXPECT_EQ(Guess({0, 0, 0}), std::nullopt);
  EXPECT_THAT(guesses_, IsEmpty());
  sources_.Forget(sequence_);
  EXPECT_EQ(answers_.forgotten_, 1);
}

}  // namespace
}  // namespace tutti::coordinator
