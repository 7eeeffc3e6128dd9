#include "coordinator/service/mask_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "coordinator/model_testing.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/request_builder.h"

namespace tutti::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class MaskBuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = LoadDemoModel().release(); }
  static void TearDownTestSuite() { delete model_; }

  static absl::StatusOr<BuiltRequest> Build(
      const std::function<void(v1::SamplingParams*)>& change) {
    v1::GenerateRequest message;
    message.set_text("hello");
    change(message.mutable_sampling());
    return BuildRequest(message, *model_);
  }
  static v1::SequenceSampling Mask(const std::function<void(v1::SamplingParams*)>& change) {
    const auto built = Build(change);
    EXPECT_TRUE(built.ok()) << built.status();
    return built.ok() ? built->request.sampling : v1::SequenceSampling();
  }
  static void ExpectRefused(const std::string& words,
                            const std::function<void(v1::SamplingParams*)>& change) {
    const auto built = Build(change);
    EXPECT_EQ(built.status().code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(built.status().message()), HasSubstr(words));
  }
  static std::vector<TokenId> Ids(const std::string& text) {
    return *model_->tokenizer->Encode(text);
  }

  static ServedModel* model_;
};
ServedModel* MaskBuilderTest::model_ = nullptr;

TEST_F(MaskBuilderTest, WithoutLimitsNothingIsSaid) {
  const v1::SequenceSampling sampling = Mask([](auto* p) { p->add_stop_token_ids(3); });
  EXPECT_EQ(sampling.min_tokens(), 0u);
  EXPECT_THAT(sampling.end_ids(), IsEmpty());
  EXPECT_EQ(sampling.banned_size(), 0);
  EXPECT_THAT(sampling.allowed_ids(), IsEmpty());
}

TEST_F(MaskBuilderTest, EndsAreThoseOfTheRequest) {
  const auto& eos = model_->generation.eos_token_ids;
  ASSERT_EQ(eos.size(), 2u);
  EXPECT_THAT(Mask([](auto* p) { p->set_min_tokens(4), p->add_stop_token_ids(3); }).end_ids(),
              UnorderedElementsAre(3, eos[0], eos[1]));
  const auto ignoring = Mask([](auto* p) {
    p->set_min_tokens(4);
    p->add_stop_token_ids(3);
    p->set_ignore_eos(true);
  });
  EXPECT_THAT(ignoring.end_ids(), ElementsAre(3));
  EXPECT_EQ(ignoring.min_tokens(), 4u);
}

TEST_F(MaskBuilderTest, TheLeastLengthFitsTheLongest) {
  Mask([](auto* p) { p->set_min_tokens(7), p->set_max_tokens(7); });
  ExpectRefused("sampling.min_tokens is 8, more than the 7 of max_tokens",
                [](auto* p) { p->set_min_tokens(8), p->set_max_tokens(7); });
  const auto room = static_cast<uint32_t>(model_->max_model_len - Ids("hello").size());
  Mask([room](auto* p) { p->set_min_tokens(room); });
  for (const uint32_t beyond : {room + 1, ~0u}) {
    ExpectRefused("that the context leaves", [&](auto* p) { p->set_min_tokens(beyond); });
  }
}

TEST_F(MaskBuilderTest, WordsAreBannedAtTheBeginningAndBehindASpace) {
  const auto rows = [](const std::string& word) {
    std::vector<std::vector<TokenId>> rows;
    const v1::SequenceSampling sampling = Mask([&](auto* p) { p->add_bad_words(word); });
    for (const v1::BannedTokens& banned : sampling.banned()) {
      rows.emplace_back(banned.ids().begin(), banned.ids().end());
    }
    return rows;
  };
  for (const std::string word : {"capital", "backwards of", "né"}) {
    EXPECT_THAT(rows(word), UnorderedElementsAre(Ids(word), Ids(" " + word))) << word;
    EXPECT_EQ(rows("  " + word), rows(word));
  }
  const v1::SequenceSampling twice =
      Mask([](auto* p) { p->add_bad_words("of"), p->add_bad_words(" of"); });
  EXPECT_EQ(twice.banned_size(), 2);
}

TEST_F(MaskBuilderTest, WordsHaveLimits) {
  Mask([](auto* p) { p->add_bad_words(std::string(kBadWordBytesMax, 'x')); });
  ExpectRefused("sampling.bad_words[0] has 257 bytes",
                [](auto* p) { p->add_bad_words(std::string(kBadWordBytesMax + 1, 'x')); });
  ExpectRefused("sampling.bad_words has 129 words", [](auto* p) {
    for (int i = 0; i <= kBadWordsMax; ++i) p->add_bad_words("x");
  });
  for (const std::string blank : {"", " ", "\n\t "}) {
    ExpectRefused("sampling.bad_words[1] has nothing but white space",
                  [&](auto* p) { p->add_bad_words("x"), p->add_bad_words(blank); });
  }
}

TEST_F(MaskBuilderTest, AllowedIdsAreSorted) {
  const auto sampling = Mask([](auto* p) {
    for (const int32_t id : {9, 3, 9, 5}) p->add_allowed_token_ids(id);
  });
  EXPECT_THAT(sampling.allowed_ids(), ElementsAre(3, 5, 9));
  const auto vocab = static_cast<int32_t>(model_->config.vocab_size);
  for (const int32_t bad : {-1, vocab}) {
    ExpectRefused("sampling.allowed_token_ids[1] is",
                  [&](auto* p) { p->add_allowed_token_ids(0), p->add_allowed_token_ids(bad); });
  }
  ExpectRefused("sampling.allowed_token_ids has 16385 ids", [](auto* p) {
    p->mutable_allowed_token_ids()->Resize(static_cast<int>(kAllowedTokenIdsMax) + 1, 0);
  });
}

// Otherwise a request could end as if the model had lost its numbers.
TEST_F(MaskBuilderTest, ATokenIsAlwaysLeft) {
  const TokenId end = model_->generation.eos_token_ids[0];
  Mask([&](auto* p) { p->add_allowed_token_ids(end); });
  const std::string none = "sampling.allowed_token_ids may leave no token";
  ExpectRefused(none, [&](auto* p) { p->add_allowed_token_ids(end), p->set_min_tokens(1); });
  const TokenId seven = Ids("7").back();
  ASSERT_EQ(Ids("7").size(), 1u);
  ExpectRefused(none, [&](auto* p) { p->add_allowed_token_ids(seven), p->add_bad_words("7"); });
  Mask([&](auto* p) {
    p->add_bad_words("7");
    p->add_allowed_token_ids(seven);
    p->add_allowed_token_ids(seven + 1);
  });
  // A row of tokens one of which never comes.
  const std::vector<TokenId> row = Ids("of of of");
  ASSERT_GT(row.size(), 1u);
  Mask([&](auto* p) { p->add_allowed_token_ids(row.back()), p->add_bad_words("x of of"); });
}

}  // namespace
}  // namespace tutti::coordinator
