#include "coordinator/service/grammar_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/model_testing.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/request_builder.h"
#include "grammar/limits.h"

namespace tutti::coordinator {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class GrammarBuilderTest : public ::testing::Test {
 protected:
  GrammarBuilderTest() { message_.set_text("hello"); }

  v1::SequenceSampling Built() {
    const auto built = BuildRequest(message_, *model_);
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok()) return {};
    EXPECT_EQ(built->grammar_digest.size(), 32u);
    stops_ = built->request.stop_token_ids;
    return built->request.sampling;
  }
  std::string Refused(absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const absl::Status status = BuildRequest(message_, *model_).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  const std::unique_ptr<ServedModel> model_ = LoadDemoModel();
  v1::GenerateRequest message_;
  std::vector<TokenId> stops_;
};

TEST_F(GrammarBuilderTest, WhatIsKnownIsNotMadeAgain) {
  message_.mutable_grammar()->set_json_schema(R"({"type": "object", "additionalProperties": {}})");
  KnownGrammars known(2);
  // Nothing can be made with so little work.
  const GrammarMeans hurried = {.known = &known, .work_max = 1};
  EXPECT_TRUE(absl::IsAborted(BuildRequest(message_, *model_, hurried).status()));
  const auto made = BuildRequest(message_, *model_, {.known = &known});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto again = BuildRequest(message_, *model_, hurried);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->grammar_digest, made->grammar_digest);
  EXPECT_EQ(again->request.sampling.SerializeAsString(),
            made->request.sampling.SerializeAsString());
  // Others are others, and those asked for long ago go.
  message_.mutable_grammar()->set_whitespace(v1::GRAMMAR_WHITESPACE_BOUNDED);
  EXPECT_TRUE(absl::IsAborted(BuildRequest(message_, *model_, hurried).status()));
  for (const std::string pattern : {"a", "b"}) {
    message_.mutable_grammar()->set_regex(pattern);
    EXPECT_TRUE(BuildRequest(message_, *model_, {.known = &known}).ok());
  }
  EXPECT_TRUE(BuildRequest(message_, *model_, hurried).ok());
  EXPECT_FALSE(known.Find(made->grammar_digest).has_value());
}

TEST_F(GrammarBuilderTest, WhatTakesMuchToRememberIsNot) {
  KnownGrammars known(2);
  known.Add("few", {"<|a|>", "<|b|>"});
  known.Add("long", {std::string(2000, 'a')});
  known.Add("many", std::vector<std::string>(1000, "<|a|>"));
  EXPECT_TRUE(known.Find("few").has_value());
  EXPECT_FALSE(known.Find("long").has_value());
  EXPECT_FALSE(known.Find("many").has_value());
}

// A special token that a known grammar asks for may be missing from another model.
TEST_F(GrammarBuilderTest, WhatIsKnownIsCheckedAgainstTheModel) {
  message_.mutable_grammar()->set_ebnf("root ::= %special \"<|nothing|>\"");
  KnownGrammars known(2);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = BuildRequest(message_, *model_, {.known = &known}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("is no special token"));
  }
}

TEST_F(GrammarBuilderTest, SourcesBecomeTheWorkers) {
  v1::Grammar& grammar = *message_.mutable_grammar();
  grammar.set_json_schema(R"({"type": "null"})");
  EXPECT_EQ(Built().grammar().kind(), v1::GRAMMAR_KIND_JSON_SCHEMA);
  EXPECT_EQ(Built().grammar().text(), R"({"type": "null"})");
  EXPECT_FALSE(Built().grammar().blanks());
  grammar.set_whitespace(v1::GRAMMAR_WHITESPACE_BOUNDED);
  EXPECT_TRUE(Built().grammar().blanks());
  grammar.mutable_json_object();
  EXPECT_EQ(Built().grammar().kind(), v1::GRAMMAR_KIND_JSON_OBJECT);
  grammar.set_regex("a+");
  EXPECT_EQ(Built().grammar().kind(), v1::GRAMMAR_KIND_REGEX);
  grammar.set_ebnf("root ::= \"a\"");
  EXPECT_EQ(Built().grammar().kind(), v1::GRAMMAR_KIND_EBNF);
  grammar.mutable_choice()->add_texts("say \"a\"");
  grammar.mutable_choice()->add_texts("b");
  EXPECT_EQ(Built().grammar().kind(), v1::GRAMMAR_KIND_CHOICE);
  EXPECT_EQ(Built().grammar().text(), R"(["say \"a\"","b"])");
}

// The output ends where its text does: the workers know by which tokens.
TEST_F(GrammarBuilderTest, EndsAreThere) {
  message_.mutable_grammar()->set_regex("a+");
  message_.mutable_sampling()->add_stop_token_ids(7);
  std::vector<TokenId> ends = model_->generation.eos_token_ids;
  ends.push_back(7);
  std::sort(ends.begin(), ends.end());
  EXPECT_THAT(Built().end_ids(), ElementsAreArray(ends));
  EXPECT_FALSE(Built().grammar().ends_late());
  message_.mutable_sampling()->set_ignore_eos(true);
  EXPECT_TRUE(Built().grammar().ends_late());
  EXPECT_EQ(stops_, ends);
}

TEST_F(GrammarBuilderTest, APrefaceIsTheClientsOrTheTemplates) {
  message_.mutable_grammar()->set_regex("a+");
  EXPECT_EQ(Built().grammar().preface_close(), "");
  message_.mutable_grammar()->mutable_preface()->set_open("(");
  message_.mutable_grammar()->mutable_preface()->set_close(")");
  EXPECT_EQ(Built().grammar().preface_open(), "(");
  EXPECT_EQ(Built().grammar().preface_close(), ")");
  message_.mutable_grammar()->mutable_preface()->set_close(
      std::string(grammar::kPrefaceBytesMax + 1, 'a'));
  EXPECT_THAT(Refused(), HasSubstr("grammar.preface.close has 257 bytes"));
}

TEST_F(GrammarBuilderTest, EqualGrammarsHaveOneDigest) {
  message_.mutable_grammar()->set_regex("a+");
  const std::string digest = BuildRequest(message_, *model_)->grammar_digest;
  message_.set_text("another prompt");
  EXPECT_EQ(BuildRequest(message_, *model_)->grammar_digest, digest);
  message_.mutable_grammar()->set_regex("a*");
  EXPECT_NE(BuildRequest(message_, *model_)->grammar_digest, digest);
}

TEST_F(GrammarBuilderTest, SpecialTokensAreTheModels) {
  message_.mutable_grammar()->set_ebnf("root ::= %special \"<|no such|>\"");
  EXPECT_THAT(Refused(), HasSubstr("grammar.ebnf: %special \"<|no such|>\" is no special token"));
}

TEST_F(GrammarBuilderTest, AModelWithoutTextsOrEndsHasNone) {
  message_.mutable_grammar()->set_regex("a+");
  model_->generation.eos_token_ids.clear();
  EXPECT_THAT(Refused(absl::StatusCode::kFailedPrecondition), HasSubstr("no token that ends"));
  model_->vocabulary.reset();
  EXPECT_THAT(Refused(absl::StatusCode::kFailedPrecondition), HasSubstr("than a link takes"));
  model_->tokenizer.reset();
  message_.mutable_token_ids()->add_ids(1);
  EXPECT_THAT(Refused(absl::StatusCode::kFailedPrecondition), HasSubstr("no tokenizer files"));
}

TEST_F(GrammarBuilderTest, ChoicesHaveEdges) {
  v1::Choice& choice = *message_.mutable_grammar()->mutable_choice();
  for (int64_t i = 0; i < kChoiceTextsMax; ++i) choice.add_texts(std::to_string(i));
  Built();
  choice.add_texts("one more");
  EXPECT_THAT(Refused(), HasSubstr("grammar.choice.texts has 4097 texts"));
}

}  // namespace
}  // namespace tutti::coordinator
