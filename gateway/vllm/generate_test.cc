#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gateway/vllm/generate_answer.h"
#include "gateway/vllm/generate_request.h"

namespace tutti::gateway {
namespace {

std::string RefusedIds(const std::string& body) {
  const auto read = ReadIdsRequest(Json::parse(body));
  const auto* error = std::get_if<ApiError>(&read);
  return error == nullptr ? "taken" : error->param;
}

IdsRequest GoodIds(const std::string& body) {
  const auto read = ReadIdsRequest(Json::parse(body));
  EXPECT_TRUE(std::holds_alternative<IdsRequest>(read)) << body;
  return std::get<IdsRequest>(read);
}

TEST(IdsRequest, IsReadOrRefusedByName) {
  const IdsRequest request = GoodIds(R"({"token_ids": [1, 2], "sampling_params": {"n": 2,
    "max_tokens": 5, "temperature": 0, "logprobs": 1, "stop_token_ids": [7], "detokenize": true},
    "model": "m", "stream": true, "stream_options": {"include_usage": true},
    "return_token_ids": true, "request_id": "mine", "output_mode": "text"})");
  const v1::GenerateRequest& call = request.calls.at(0);
  EXPECT_EQ(call.token_ids().ids_size(), 2);
  EXPECT_EQ(call.n(), 2u);
  EXPECT_EQ(call.sampling().max_tokens(), 5u);
  EXPECT_EQ(call.sampling().top_logprobs(), 1u);
  EXPECT_TRUE(request.with_text && request.include_usage && request.with_prompt_ids);
  // Without a length the answer may be as long as there is room.
  EXPECT_FALSE(
      GoodIds(R"({"token_ids": [1], "sampling_params": {}})").calls[0].sampling().has_max_tokens());
  const std::pair<const char*, const char*> cases[] = {
      {R"({"sampling_params": {}})", "token_ids"},
      {R"({"token_ids": [], "sampling_params": {}})", "token_ids"},
      {R"({"token_ids": [1]})", "sampling_params"},
      {R"({"token_ids": [1], "sampling_params": {"temperature": "x"}})",
       "sampling_params.temperature"},
      {R"({"token_ids": [1], "sampling_params": {"structured_outputs": {"json": {}}}})",
       "sampling_params.structured_outputs"},
      {R"({"token_ids": [1], "sampling_params": {}, "features": {"a": 1}})", "features"},
      {R"({"token_ids": [1], "sampling_params": {}, "prompt": "a"})", "prompt"},
      {R"({"token_ids": [1], "sampling_params": {}, "output_mode": "x"})", "output_mode"},
  };
  for (const auto& [body, param] : cases) EXPECT_EQ(RefusedIds(body), param) << body;
  for (const auto& [words, param] : std::vector<std::pair<const char*, const char*>>{
           {"sampling.temperature is -1", "sampling_params.temperature"},
           {"sampling.max_tokens is 0", "sampling_params.max_tokens"},
           {"n is 900, the limit is 64", "sampling_params.n"},
           {"token_ids.ids[1] is 9", "token_ids[1]"}}) {
    EXPECT_EQ(FromStatus(absl::InvalidArgumentError(words), request.names, 0).param, param);
  }
}

std::vector<v1::GenerateResponse> TwoTokens() {
  std::vector<v1::GenerateResponse> messages(2);
  for (int i = 0; i < 2; ++i) {
    v1::OutputToken* const token = messages[i].add_tokens();
    token->set_id(5 + 2 * i);
    token->set_token(i == 0 ? "a" : "");
    token->set_logprob(-0.5F);
    if (i > 0) continue;
    v1::TokenLogprob* const top = token->add_top();
    top->set_id(5 + 2 * i);
    top->set_logprob(-0.5F);
  }
  messages[0].mutable_started()->set_prompt_tokens(2);
  messages[0].set_text("a");
  messages[1].mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  return messages;
}

TEST(IdsAnswer, TellsIdsWholeAndStreamed) {
  const std::string body = R"({"token_ids": [1, 2], "return_token_ids": true, "output_mode": "MODE",
    "stream": STREAM, "stream_options": {"include_usage": true},
    "sampling_params": {"logprobs": 1, "stop_token_ids": [7]}})";
  const auto request = [&](const std::string& mode, const std::string& stream) {
    std::string text = body;
    text.replace(text.find("MODE"), 4, mode);
    text.replace(text.find("STREAM"), 6, stream);
    return GoodIds(text);
  };
  IdsAnswer whole(request("tokens", "false"), {1, 2}, 1, "r", 7, "m");
  for (const auto& message : TwoTokens()) EXPECT_EQ(whole.OnMessage(0, message), "");
  const Json answer = Json::parse(whole.OnEnd());
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["token_ids"], Json({5, 7}));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], 7);
  EXPECT_FALSE(choice.contains("text"));
  EXPECT_EQ(choice["logprobs"]["content"][0],
            Json::parse(R"({"token_id": 5, "logprob": -0.5, "rank": 1, "top_logprobs":
                            [{"token_id": 5, "logprob": -0.5, "rank": 1}]})"));
  // Without others, itself.
  const Json& alone = choice["logprobs"]["content"][1];
  ASSERT_EQ(alone["top_logprobs"].size(), 1u);
  EXPECT_EQ(alone["top_logprobs"][0]["token_id"], 7);
  EXPECT_EQ(alone["top_logprobs"][0]["logprob"], alone["logprob"]);
  EXPECT_EQ(answer["request_id"], "r");
  EXPECT_EQ(answer["prompt_token_ids"], Json({1, 2}));
  EXPECT_EQ(answer["usage"]["total_tokens"], 4);

  IdsAnswer streamed(request("text", "true"), {1, 2}, 1, "r", 7, "m");
  std::string stream;
  for (const auto& message : TwoTokens()) stream += streamed.OnMessage(0, message);
  stream += streamed.OnEnd();
  const std::vector<std::string> parts = absl::StrSplit(stream, "\n\n", absl::SkipEmpty());
  ASSERT_EQ(parts.size(), 4u);
  const Json first = Json::parse(parts[0].substr(6)), second = Json::parse(parts[1].substr(6));
  EXPECT_EQ(first["prompt_token_ids"], Json({1, 2}));
  EXPECT_EQ(first["choices"][0]["text"], "a");
  EXPECT_EQ(first["choices"][0]["token_ids"], Json({5}));
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(second["choices"][0]["token_ids"], Json({7}));
  EXPECT_EQ(second["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(Json::parse(parts[2].substr(6))["usage"]["completion_tokens"], 2);
  EXPECT_EQ(parts[3], "data: [DONE]");
}

}  // namespace
}  // namespace tutti::gateway
