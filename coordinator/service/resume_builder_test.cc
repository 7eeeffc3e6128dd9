#include "coordinator/service/resume_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "coordinator/model_testing.h"
#include "coordinator/service/output_text.h"

namespace tutti::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ResumeChange = std::function<void(v1::GenerateRequest*, ResumeClaims*)>;

class ResumeBuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = LoadDemoModel().release(); }
  static void TearDownTestSuite() { delete model_; }

  // An answer of at most 6 tokens of which the client has what `change` says.
  static absl::StatusOr<BuiltRequest> Build(const ResumeChange& change) {
    v1::GenerateRequest message;
    message.set_text("hello");
    message.mutable_sampling()->set_ignore_eos(true);
    message.mutable_sampling()->add_stop_token_ids(5);
    message.mutable_sampling()->add_stop("xy");
    ResumeClaims claims;
    claims.seed = 77;
    claims.max_tokens = 6;
    claims.numerics = "class";
    change(&message, &claims);
    TUTTI_ASSIGN_OR_RETURN(BuiltRequest built, BuildRequest(message, *model_));
    TUTTI_RETURN_IF_ERROR(BuildResume(message.resume(), claims, *model_, &built));
    return built;
  }
  static absl::StatusOr<BuiltRequest> BuildOne(const std::vector<TokenId>& ids) {
    return Build([&](v1::GenerateRequest* m, ResumeClaims*) {
      m->mutable_resume()->add_outputs()->mutable_ids()->Assign(ids.begin(), ids.end());
    });
  }
  static void ExpectRefused(absl::StatusCode code, const std::string& words,
                            const ResumeChange& change) {
    const auto built = Build(change);
    ASSERT_FALSE(built.ok()) << "expected an error about: " << words;
    EXPECT_EQ(built.status().code(), code) << built.status();
    EXPECT_THAT(std::string(built.status().message()), HasSubstr(words));
  }
  static std::vector<TokenId> Ids(const std::string& text) {
    const auto ids = model_->tokenizer->Encode(text);
    CHECK(ids.ok());
    return *ids;
  }

  static ServedModel* model_;
};
ServedModel* ResumeBuilderTest::model_ = nullptr;

TEST_F(ResumeBuilderTest, SeedLengthAndClassAreTheClaimed) {
  const auto built = BuildOne({10, 11});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(built->request.resumes);
  EXPECT_EQ(built->request.sampling.seed(), 77u);
  EXPECT_TRUE(built->seed_given);
  EXPECT_EQ(built->request.max_tokens, 6);
  EXPECT_FALSE(built->request.max_tokens_is_default);
  EXPECT_EQ(built->request.numerics, "class");
  ASSERT_EQ(built->starts.size(), 1u);
  EXPECT_THAT(built->starts[0].ids, ElementsAre(10, 11));
  EXPECT_FALSE(built->starts[0].ended.has_value());
  EXPECT_EQ(built->output.resume[0].tokens, 2);
}

TEST_F(ResumeBuilderTest, OutputsThatAreCompleteHaveTheirEnd) {
  EXPECT_EQ(BuildOne({10, 11, 12, 13, 14, 15})->starts[0].ended, FinishCause::kLength);
  EXPECT_EQ(BuildOne({10, 5})->starts[0].ended, FinishCause::kStopToken);
  const std::vector<TokenId> stopped = Ids("xy");
  ASSERT_LT(stopped.size(), 6u);
  EXPECT_EQ(BuildOne(stopped)->starts[0].ended, FinishCause::kStopString);
  EXPECT_FALSE(BuildOne(Ids("x"))->starts[0].ended.has_value());
  EXPECT_FALSE(BuildOne({})->starts[0].ended.has_value());
}

TEST_F(ResumeBuilderTest, IdsAfterTheEndAreNobodys) {
  EXPECT_THAT(std::string(BuildOne({5, 10}).status().message()),
              HasSubstr("resume.outputs[0].ids[1] comes after the end"));
  std::vector<TokenId> stopped = Ids("xy");
  stopped.push_back(10);
  EXPECT_EQ(BuildOne(stopped).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ResumeBuilderTest, LimitsHaveEdges) {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  const int32_t vocabulary = model_->config.vocab_size;
  EXPECT_TRUE(BuildOne({0, vocabulary - 1}).ok());
  for (const TokenId id : {-1, vocabulary, vocabulary * 1000}) {
    EXPECT_EQ(BuildOne({id}).status().code(), kBad);
  }
  EXPECT_THAT(std::string(BuildOne({1, 1, 1, 1, 1, 1, 1}).status().message()),
              HasSubstr("max_tokens of the answer is 6"));
  const auto with_count = [](uint32_t count) {
    return [count](v1::GenerateRequest* m, ResumeClaims*) {
      m->mutable_resume()->add_outputs()->set_count(count);
    };
  };
  EXPECT_TRUE(Build(with_count(6)).ok());
  ExpectRefused(kBad, "resume.outputs[0].count", with_count(7));
  ExpectRefused(kBad, "resume.outputs[0].count", with_count(~0u));
  ExpectRefused(kBad, "ids and a count", [](v1::GenerateRequest* m, ResumeClaims*) {
    v1::ResumedOutput& has = *m->mutable_resume()->add_outputs();
    has.add_ids(1);
    has.set_count(1);
  });
  ExpectRefused(kBad, "without a count", [](v1::GenerateRequest* m, ResumeClaims*) {
    m->mutable_resume()->add_outputs()->set_digest(1);
  });
}

TEST_F(ResumeBuilderTest, EveryOutputHasOneEntry) {
  const auto with = [](uint32_t n, int entries) {
    return [=](v1::GenerateRequest* m, ResumeClaims*) {
      m->set_n(n);
      for (int i = 0; i < entries; ++i) m->mutable_resume()->add_outputs();
      m->mutable_resume();
    };
  };
  EXPECT_TRUE(Build(with(3, 3)).ok());
  for (const int entries : {0, 2, 4}) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, "resume.outputs has", with(3, entries));
  }
}

TEST_F(ResumeBuilderTest, AContextThatHasBecomeTooShortIsNamed) {
  for (const int32_t max_tokens : {0, -1, model_->max_model_len}) {
    ExpectRefused(absl::StatusCode::kFailedPrecondition, "context",
                  [&](v1::GenerateRequest* m, ResumeClaims* claims) {
                    m->mutable_resume()->add_outputs();
                    claims->max_tokens = max_tokens;
                  });
  }
}

TEST_F(ResumeBuilderTest, WhatHasFinishedIsLeftAlone) {
  const auto built = Build([](v1::GenerateRequest* m, ResumeClaims*) {
    m->set_n(2);
    m->mutable_resume()->add_outputs()->set_finished(true);
    m->mutable_resume()->add_outputs()->set_count(3);
  });
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(built->starts[0].finished);
  EXPECT_TRUE(built->output.resume[0].finished);
  EXPECT_FALSE(built->starts[1].finished);
  EXPECT_EQ(built->output.resume[1].text, nullptr) << "computed again";
}

}  // namespace
}  // namespace tutti::coordinator
