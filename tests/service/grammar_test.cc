// Answers by grammars, through the whole service: what comes is of the grammar, and the same in any
// company (after a cut: resume_test.cc); what is refused has a name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "coordinator/service/limits.h"
#include "grammar/limits.h"
#include "tests/service/resume_testing.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSchema[] =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
        "ages": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 120},
                 "maxItems": 3}, "kind": {"enum": ["cat", "dog"]}},
        "required": ["name", "kind"], "additionalProperties": false})";

class GrammarTest : public ::testing::Test {
 protected:
  GrammarTest() : cluster_({.model_dir = DemoDir(), .layers = {1, 3}, .ranks = {1, 2}}) {}

  static v1::GenerateRequest Ask(uint64_t seed, uint32_t max_tokens = 120) {
    v1::GenerateRequest request;
    request.set_text("Tell me something: ");
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_seed(seed);
    request.mutable_sampling()->set_max_tokens(max_tokens);
    return request;
  }
  static v1::GenerateRequest AskBySchema(uint64_t seed, uint32_t max_tokens = 120) {
    v1::GenerateRequest request = Ask(seed, max_tokens);
    request.mutable_grammar()->set_json_schema(kSchema);
    return request;
  }
  static void ExpectOfSchema(const std::string& text) {
    const auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value.contains("name") && value["name"].is_string()) << text;
    ASSERT_TRUE(value.contains("kind")) << text;
    EXPECT_TRUE(value["kind"] == "cat" || value["kind"] == "dog") << text;
    for (const auto& [name, member] : value.items()) {
      EXPECT_TRUE(name == "name" || name == "kind" || name == "ages") << text;
    }
  }
  Answer Generate(const v1::GenerateRequest& request) {
    Answer answer = cluster_.Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer;
  }
  std::string Refused(const v1::GenerateRequest& request,
                      absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const absl::Status status = cluster_.Generate(request).status;
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  InProcessCluster cluster_;
};

TEST_F(GrammarTest, AnswersAreOfTheirSchema) {
  int ended = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Answer answer = Generate(AskBySchema(seed));
    if (answer.finish.reason() != v1::FINISH_REASON_STOP) continue;
    ++ended;
    ExpectOfSchema(answer.text);
  }
  EXPECT_GT(ended, 6);
}

TEST_F(GrammarTest, EveryKindOfGrammarIsServed) {
  v1::GenerateRequest request = Ask(5);
  request.mutable_grammar()->set_regex("[A-F]{3}-[0-9]{2,4}");
  EXPECT_TRUE(std::regex_match(Generate(request).text, std::regex("[A-F]{3}-[0-9]{2,4}")));
  for (const char* text : {"certainly", "not at all"}) {
    request.mutable_grammar()->mutable_choice()->add_texts(text);
  }
  EXPECT_THAT(Generate(request).text, ::testing::AnyOf("certainly", "not at all"));
  request.mutable_grammar()->set_ebnf("root ::= word (\", \" word){2}\nword ::= [a-z]{1,4}");
  EXPECT_TRUE(std::regex_match(Generate(request).text, std::regex("[a-z]{1,4}(, [a-z]{1,4}){2}")));
  request.mutable_sampling()->set_temperature(0);
  request.mutable_grammar()->mutable_json_object();
  request.mutable_grammar()->set_whitespace(v1::GRAMMAR_WHITESPACE_BOUNDED);
  EXPECT_THAT(Generate(request).text, StartsWith("{"));
}

// Sixteen at once, half of them free, beside each of them alone.
TEST_F(GrammarTest, CompanyChangesNoBit) {
  std::vector<v1::GenerateRequest> requests;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    requests.push_back(seed % 2 == 0 ? Ask(seed, 30) : AskBySchema(seed, 60));
    requests.back().mutable_sampling()->set_logprobs(true);
    requests.back().mutable_sampling()->set_top_logprobs(3);
  }
  const std::vector<Answer> together = cluster_.Generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer alone = Generate(requests[i]);
    ASSERT_TRUE(together[i].status.ok()) << together[i].status;
    ASSERT_EQ(alone.tokens.size(), together[i].tokens.size()) << i;
    for (size_t t = 0; t < alone.tokens.size(); ++t) {
      EXPECT_EQ(alone.tokens[t].SerializeAsString(), together[i].tokens[t].SerializeAsString());
    }
  }
}

// Log-probabilities are over what may come, and no other token is told.
TEST_F(GrammarTest, LogprobsAreAmongWhatMayCome) {
  v1::GenerateRequest request = Ask(1);
  request.mutable_grammar()->set_regex("x[yz]");
  request.mutable_sampling()->set_logprobs(true);
  request.mutable_sampling()->set_top_logprobs(5);
  const Answer answer = Generate(request);
  ASSERT_GE(answer.tokens.size(), 2u);
  for (const v1::OutputToken& token : answer.tokens) {
    double sum = 0;
    for (const v1::TokenLogprob& top : token.top()) sum += std::exp(double{top.logprob()});
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_LE(answer.tokens[0].top_size(), 3) << "x, xy, xz";
}

TEST_F(GrammarTest, OutputsOfOneRequestAreThoseOfManyRequests) {
  v1::GenerateRequest several = AskBySchema(7, 60);
  several.set_n(3);
  const Answer together = Generate(several);
  for (uint64_t i = 0; i < 3; ++i) {
    const AnswerOutput& output = i == 0 ? together : together.others.at(static_cast<uint32_t>(i));
    EXPECT_EQ(Generate(AskBySchema(7 + i, 60)).text, output.text);
  }
}

// Ids that no answer by the grammar has end the stream with the position.
TEST_F(GrammarTest, IdsOfAnotherTextAreRefused) {
  v1::GenerateRequest request = Ask(3, 20);
  request.mutable_grammar()->set_regex("a{20}");
  const CutStream whole = ReadTokenByToken(cluster_.inference(), request);
  ASSERT_GE(whole.messages.size(), 3u);
  v1::GenerateRequest other = GoOn(request, whole.messages, 2, false);
  other.mutable_resume()->mutable_outputs(0)->set_ids(0, 65);
  const CutStream rest = ReadStream(cluster_.inference(), other);
  EXPECT_EQ(rest.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(rest.status.error_message(), HasSubstr("at token 0 of the output"));
}

TEST_F(GrammarTest, EndsAreWhereTheTextMayEnd) {
  v1::GenerateRequest request = Ask(9);
  request.mutable_grammar()->set_regex("a{3,6}");
  request.mutable_sampling()->set_min_tokens(100);
  EXPECT_EQ(Generate(request).text, "aaaaaa") << "the longest, and then it can only end";
  request.mutable_sampling()->set_min_tokens(0);
  request.mutable_sampling()->set_ignore_eos(true);
  EXPECT_EQ(Generate(request).text, "aaaaaa");
  request.mutable_sampling()->set_ignore_eos(false);
  request.mutable_sampling()->add_stop("aaa");
  EXPECT_EQ(Generate(request).text, "");
  request.mutable_sampling()->clear_stop();
  request.mutable_sampling()->set_max_tokens(1);
  EXPECT_EQ(Generate(request).finish.reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(GrammarTest, NothingLeftEndsWithThePosition) {
  v1::GenerateRequest request = Ask(9);
  request.mutable_grammar()->set_regex("abc");
  request.mutable_sampling()->add_bad_words("c");
  request.mutable_sampling()->add_bad_words("bc");
  request.mutable_sampling()->add_bad_words("abc");
  EXPECT_THAT(Refused(request, absl::StatusCode::kFailedPrecondition),
              HasSubstr("leave none for position"));
  EXPECT_TRUE(Generate(Ask(1, 3)).status.ok()) << "others go on";
}

TEST_F(GrammarTest, WhatIsNotServedIsRefusedByName) {
  v1::GenerateRequest request = Ask(1);
  v1::Grammar& grammar = *request.mutable_grammar();
  EXPECT_THAT(Refused(request), StartsWith("grammar: one of"));
  grammar.set_json_schema(R"({"properties": {"a": {"not": {}}}})");
  EXPECT_THAT(Refused(request), StartsWith("grammar.json_schema: "));
  EXPECT_THAT(Refused(request), HasSubstr("/properties/a"));
  EXPECT_THAT(Refused(request), HasSubstr("not"));
  grammar.set_json_schema("{");
  EXPECT_THAT(Refused(request), StartsWith("grammar.json_schema: "));
  grammar.set_json_schema(std::string(grammar::kSourceBytesMax + 1, ' '));
  EXPECT_THAT(Refused(request), StartsWith("grammar.json_schema has 1048577 bytes, the limit is"));
  grammar.set_regex("a(");
  EXPECT_THAT(Refused(request), StartsWith("grammar.regex: "));
  grammar.set_ebnf("root ::= other");
  EXPECT_THAT(Refused(request), StartsWith("grammar.ebnf: "));
  grammar.mutable_choice();
  EXPECT_THAT(Refused(request), StartsWith("grammar.choice.texts has 0 texts"));
  grammar.mutable_choice()->add_texts("");
  EXPECT_THAT(Refused(request), StartsWith("grammar.choice.texts[0] is empty"));
  grammar.set_regex("a");
  grammar.set_whitespace(static_cast<v1::GrammarWhitespace>(7));
  EXPECT_THAT(Refused(request), StartsWith("grammar.whitespace is 7"));
  grammar.clear_whitespace();
  grammar.mutable_preface()->set_open("<think>");
  EXPECT_THAT(Refused(request), StartsWith("grammar.preface.close is empty"));
}

}  // namespace
}  // namespace tutti::tests
