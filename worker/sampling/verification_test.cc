#include "worker/sampling/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SequenceState StateOf(uint64_t id, std::vector<TokenId> tokens) {
  SequenceState state;
  state.id = SequenceId(id);
  state.tokens = std::move(tokens);
  state.prompt_tokens = 1;
  state.sampling.set_presence_penalty(0.5);
  for (size_t i = 0; i < state.tokens.size(); ++i) {
    if (i > 0) ++state.counts[state.tokens[i]].in_output;
  }
  return state;
}

class VerificationTest : public testing::Test {
 protected:
  void AddRows(SequenceState* state, const std::vector<TokenId>& guesses) {
    rows_.push_back({.row = static_cast<int32_t>(rows_.size()), .sequence = state});
    for (const TokenId guess : guesses) {
      rows_.push_back({.row = static_cast<int32_t>(rows_.size()),
                       .sequence = state,
                       .goes_on = state,
                       .guess = guess});
    }
  }
  // The rows that can be sampled next, which then draw these tokens.
  std::pair<size_t, size_t> Next(const std::vector<TokenId>& draw,
                                 std::optional<size_t> end = std::nullopt) {
    const Verification::Rows rows = verification_->Next(end.value_or(rows_.size()));
    EXPECT_EQ(rows.size(), draw.size());
    for (const TokenId token : draw) sampled_.emplace_back().set_token(token);
    return {rows.begin, rows.end};
  }
  void Begin() { verification_.emplace(rows_, &sampled_); }
  std::vector<TokenId> Tokens() const {
    std::vector<TokenId> tokens;
    for (const v1::SampledToken& token : sampled_) tokens.push_back(token.token());
    return tokens;
  }

  std::vector<SampleRow> rows_;
  std::vector<v1::SampledToken> sampled_;
  std::optional<Verification> verification_;
};

using Pair = std::pair<size_t, size_t>;

TEST_F(VerificationTest, WithoutGuessesAllRowsGoTogether) {
  SequenceState a = StateOf(1, {1, 2}), b = StateOf(2, {3, 4});
  AddRows(&a, {});
  AddRows(&b, {});
  Begin();
  EXPECT_EQ(Next({7, 8}), Pair(0, 2));
  EXPECT_EQ(Next({}), Pair(2, 2));
}

TEST_F(VerificationTest, ARowIsSampledWhereItsSequenceHasComeThere) {
  SequenceState a = StateOf(1, {1, 2}), b = StateOf(2, {3, 4}), c = StateOf(3, {5});
  AddRows(&a, {10, 11});
  AddRows(&b, {20, 21, 22});
  AddRows(&c, {});
  Begin();
  EXPECT_EQ(Next({10}), Pair(0, 1));
  EXPECT_EQ(Next({11}), Pair(1, 2));
  EXPECT_THAT(a.tokens, ElementsAre(1, 2, 10));
  EXPECT_EQ(a.counts.at(10).in_output, 1);
  EXPECT_EQ(Next({12, 19}), Pair(2, 4)) << "its last row, and the first of the next";
  EXPECT_THAT(a.tokens, ElementsAre(1, 2, 10, 11));
  EXPECT_EQ(Next({30}), Pair(7, 8)) << "19 is not 20";
  EXPECT_EQ(Next({}), Pair(8, 8));
  EXPECT_THAT(Tokens(),
              ElementsAre(10, 11, 12, 19, kTokenNotDrawn, kTokenNotDrawn, kTokenNotDrawn, 30));
  EXPECT_THAT(b.tokens, ElementsAre(3, 4));
  verification_.reset();
  EXPECT_THAT(a.tokens, ElementsAre(1, 2)) << "it has its own again";
  EXPECT_EQ(a.counts.size(), 1u);
}

TEST_F(VerificationTest, NothingFollowsFromARowThatLostItsNumbers) {
  SequenceState a = StateOf(1, {1});
  AddRows(&a, {10, 11});
  Begin();
  Next({10});
  Next({kTokenOfNoNumbers});
  EXPECT_EQ(Next({}), Pair(3, 3));
  EXPECT_THAT(Tokens(), ElementsAre(10, kTokenOfNoNumbers, kTokenNotDrawn));
  verification_.reset();
  EXPECT_THAT(a.output(), IsEmpty());
}

TEST_F(VerificationTest, RowsComeInSlices) {
  SequenceState a = StateOf(1, {1});
  AddRows(&a, {10, 11, 12});
  Begin();
  EXPECT_EQ(Next({10}, 2), Pair(0, 1));
  EXPECT_EQ(Next({11}, 2), Pair(1, 2));
  EXPECT_EQ(Next({}, 2), Pair(2, 2));
  EXPECT_EQ(Next({9}, 4), Pair(2, 3));
  EXPECT_EQ(Next({}, 4), Pair(4, 4));
  EXPECT_THAT(Tokens(), ElementsAre(10, 11, 9, kTokenNotDrawn));
  verification_.reset();
  EXPECT_THAT(a.output(), IsEmpty());
}

}  // namespace
}  // namespace tutti::worker
