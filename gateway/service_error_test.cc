#include "gateway/service_error.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

TEST(FromStatus, GivesFieldsTheNamesOfTheClient) {
  const FieldNames chat{.chat = true, .max_tokens = "max_completion_tokens"};
  const FieldNames list{.prompt_is_list = true, .prompt_index = 2};
  const std::tuple<const char*, FieldNames, const char*> cases[] = {
      {"sampling.temperature is -1, it must lie in [0, 2]", chat, "temperature"},
      {"sampling.max_tokens is 0, it must be at least 1", chat, "max_completion_tokens"},
      {"sampling.logit_bias[7] is 200", chat, "logit_bias[7]"},
      {"sampling.top_logprobs is 50", {}, "logprobs"},
      {"chat.messages[1].role must be", chat, "messages[1].role"},
      {"token_ids.ids[3] is -1", list, "prompt[2][3]"},
      {"text holds a zero byte", {}, "prompt"},
      {"chat.continue_final_message: the chat template", chat, "continue_final_message"},
      {"cache_salt is longer than 256 bytes", {}, "cache_salt"},
      {"speculation.max_tokens is 16, the limit is 15", {}, "speculation.max_tokens"},
      {"model: no model of that name", {}, "model"},
      {"chat: model 'm' has no chat template; send the prompt as text", chat, "messages"},
  };
  for (const auto& [message, names, param] : cases) {
    const ApiError error = FromStatus(absl::InvalidArgumentError(message), names, 0);
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, param) << message;
    EXPECT_TRUE(absl::StartsWith(error.message, param)) << error.message;
  }
  for (const char* message : {"the prompt is empty: it has no tokens",
                              "prompt of 9 tokens and max_tokens of 9 do not fit"}) {
    EXPECT_EQ(FromStatus(absl::InvalidArgumentError(message), {}, 0).param, "prompt");
    EXPECT_EQ(FromStatus(absl::InvalidArgumentError(message), chat, 0).param, "messages");
  }
}

TEST(FromStatus, FindsMessagesWhereTheClientHasThem) {
  FieldNames names{.chat = true, .messages = "input"};
  names.places = {{.path = "instructions", .is_text = true}, {.path = "input[0]"}};
  for (const auto& [message, param] : std::vector<std::pair<const char*, const char*>>{
           {"chat.messages[0].content has 9 bytes", "instructions"},
           {"chat.messages[1].content has 9 bytes", "input[0].content"},
           {"chat.messages has 9 entries", "input"},
           {"sampling.top_logprobs is 5, which needs sampling.logprobs", "top_logprobs"}}) {
    const ApiError error = FromStatus(absl::InvalidArgumentError(message), names, 0);
    EXPECT_EQ(error.param, param);
    EXPECT_FALSE(absl::StrContains(error.message, "sampling.")) << error.message;
  }
}

TEST(FromStatus, SaysWhatAgentsLookForWhenAPromptIsTooLong) {
  const ApiError error =
      FromStatus(absl::InvalidArgumentError(
                     "the prompt has 99 tokens, the context of 64 leaves no room for output"),
                 {.chat = true}, 64);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
  EXPECT_TRUE(absl::StrContains(error.message, "maximum context length is 64 tokens"));
  EXPECT_TRUE(absl::StrContains(error.message, "99"));
}

TEST(FromStatus, TellsNobodyWhereTheServiceIs) {
  for (const char* before : {"", "the answer broke off and could not go on for 60 s: "}) {
    const ApiError error =
        FromStatus(absl::UnavailableError(absl::StrCat(
                       before, "no connection to a Tutti service at 10.1.2.3:50051: refused")),
                   {}, 0);
    EXPECT_EQ(error.status, 503);
    EXPECT_EQ(error.message, absl::StrCat(before, kServiceUnreachable));
  }
}

}  // namespace
}  // namespace tutti::gateway
