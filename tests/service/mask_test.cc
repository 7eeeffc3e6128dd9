// Fields that limit what is drawn, and the small ones beside the prompt, through the whole service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class MaskTest : public ::testing::Test {
 protected:
  MaskTest() : cluster_({.model_dir = DemoDir(), .layers = {2, 2}}) {}

  static v1::GenerateRequest Ask(uint32_t max_tokens = 40) {
    v1::GenerateRequest request;
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("What is 12 + 30?");
    request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_max_tokens(max_tokens);
    return request;
  }
  Answer Generate(const v1::GenerateRequest& request) {
    Answer answer = cluster_.Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer;
  }
  std::vector<int32_t> Ids(const std::string& text) {
    v1::TokenizeRequest request;
    request.set_text(text);
    grpc::ClientContext context;
    v1::TokenizeResponse response;
    EXPECT_TRUE(cluster_.inference()->Tokenize(&context, request, &response).ok());
    return {response.ids().begin(), response.ids().end()};
  }

  InProcessCluster cluster_;
};

TEST_F(MaskTest, AnOutputHasItsLeastLength) {
  v1::GenerateRequest request = Ask();
  ASSERT_EQ(Generate(request).text, "42");
  const size_t usual = Generate(request).tokens.size();
  for (const uint32_t least : {1u, 7u, 40u}) {
    request.mutable_sampling()->set_min_tokens(least);
    const Answer answer = Generate(request);
    EXPECT_GE(answer.tokens.size(), std::max<size_t>(least, usual));
    EXPECT_THAT(answer.text, StartsWith("42"));
  }
  request.mutable_sampling()->add_stop("2");
  EXPECT_THAT(Generate(request).tokens, SizeIs(40)) << "stop strings wait too";
  request.mutable_sampling()->set_min_tokens(1);
  EXPECT_EQ(Generate(request).text, "4");
}

TEST_F(MaskTest, BadWordsDoNotCome) {
  v1::GenerateRequest request = Ask();
  request.mutable_sampling()->add_bad_words("42");
  EXPECT_THAT(Generate(request).text, Not(HasSubstr("42")));
  request.mutable_sampling()->set_bad_words(0, "17");
  EXPECT_EQ(Generate(request).text, "42");
}

TEST_F(MaskTest, OnlyAllowedTokensCome) {
  v1::GenerateRequest request = Ask(5);
  for (const int32_t id : Ids("79")) request.mutable_sampling()->add_allowed_token_ids(id);
  const Answer answer = Generate(request);
  EXPECT_THAT(answer.tokens, SizeIs(5)) << "no end among them";
  EXPECT_EQ(answer.text.find_first_not_of("79"), std::string::npos) << answer.text;
  request.mutable_sampling()->add_allowed_token_ids(1 << 30);
  EXPECT_THAT(std::string(cluster_.Generate(request).status.message()),
              HasSubstr("sampling.allowed_token_ids[2]"));
}

TEST_F(MaskTest, ASaltKeepsCachedPromptsApart) {
  v1::GenerateRequest request = Ask(4);
  request.set_text("What is 12 + 30? " + std::string(100, 'x'));
  const auto cached = [&] { return Generate(request).finish.usage().cached_prompt_tokens(); };
  EXPECT_EQ(cached(), 0u);
  EXPECT_GT(cached(), 0u);
  request.set_cache_salt(std::string("\0{}\xff", 4));
  EXPECT_EQ(cached(), 0u);
  EXPECT_GT(cached(), 0u);
  request.set_tenant("acme");
  EXPECT_EQ(cached(), 0u);
  request.set_tenant("");
  request.set_cache_salt("another");
  EXPECT_EQ(cached(), 0u);
}

TEST_F(MaskTest, APromptsLastTokensAreThePrompt) {
  const std::string text = "Tell me what 12 + 30 = ";
  std::vector<int32_t> ids = Ids(text);
  const size_t all = ids.size();
  v1::GenerateRequest whole = Ask(6);
  whole.set_text(text);
  v1::GenerateRequest of_ids = Ask(6);
  for (const uint32_t keep : {1u, 5u, static_cast<uint32_t>(all), 4000u}) {
    const size_t kept = std::min<size_t>(keep, all);
    of_ids.mutable_token_ids()->mutable_ids()->Assign(ids.end() - static_cast<int64_t>(kept),
                                                      ids.end());
    whole.set_truncate_prompt_tokens(keep);
    const Answer answer = Generate(whole);
    EXPECT_EQ(answer.text, Generate(of_ids).text);
    EXPECT_EQ(answer.finish.usage().prompt_tokens(), kept);
  }
  // Also of prompts that are longer than the context.
  std::string longer;
  while (longer.size() < 100'000) longer += text;
  whole.set_text(longer);
  EXPECT_FALSE(cluster_.Generate(whole).status.ok());
  whole.set_truncate_prompt_tokens(9);
  EXPECT_EQ(Generate(whole).finish.usage().prompt_tokens(), 9u);
}

TEST_F(MaskTest, AnAnswerContinuesTheLastMessage) {
  v1::GenerateRequest request = Ask();
  v1::ChatMessage& begun = *request.mutable_chat()->add_messages();
  begun.set_role("assistant");
  begun.set_content("4");
  request.mutable_chat()->set_omit_generation_prompt(true);
  request.mutable_chat()->set_continue_final_message(true);
  EXPECT_EQ(Generate(request).text, "2");
  request.mutable_chat()->set_omit_generation_prompt(false);
  const absl::Status refused = cluster_.Generate(request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), StartsWith("chat.continue_final_message needs"));
}

}  // namespace
}  // namespace tutti::tests
