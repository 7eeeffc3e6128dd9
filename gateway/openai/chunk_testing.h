// Messages of the service and events of a stream, for tests of answers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gateway/json_text.h"
#include "gateway/openai/answer.h"

namespace tutti::gateway {

inline const AnswerHead kHead{.id = "x-1", .created = 7, .model = "m"};

inline GenerationRequest Request(bool chat, uint32_t n = 1, size_t prompts = 1) {
  GenerationRequest request;
  request.names.chat = chat;
  request.calls.resize(prompts);
  for (auto& call : request.calls) call.set_n(n);
  request.echoes.resize(prompts);
  return request;
}

inline v1::GenerateResponse Message(uint32_t output, const std::string& text, bool last = false) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_text(text);
  v1::OutputToken* token = message.add_tokens();
  token->set_id(5);
  token->set_token(text);
  token->set_logprob(-0.5F);
  if (last) message.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
  return message;
}

inline v1::GenerateResponse First(v1::GenerateResponse message, uint32_t prompt_tokens) {
  message.mutable_started()->set_prompt_tokens(prompt_tokens);
  message.mutable_started()->set_model_fingerprint("0123456789abcdefXYZ");
  return message;
}

// The JSON of each event; "[DONE]" as a text.
inline std::vector<Json> Events(const std::string& stream) {
  std::vector<Json> events;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const std::string text(part);
    EXPECT_TRUE(absl::StartsWith(text, "data: ")) << text;
    const std::string data = text.substr(6);
    events.push_back(data == "[DONE]" ? Json("[DONE]") : Json::parse(data));
  }
  return events;
}

// A conversation's request with one stop token, of a model that ends outputs with 2.
inline GenerationRequest RequestWithEnds() {
  GenerationRequest request = Request(/*chat=*/true);
  request.logprobs = true;
  request.eos_token_ids = {2};
  request.calls[0].mutable_sampling()->add_stop_token_ids(7);
  return request;
}

// A token that the text has, the one that ends the output, and the end.
inline std::vector<v1::GenerateResponse> EndingWith(int32_t id) {
  v1::GenerateResponse end = Message(0, "");
  end.mutable_tokens(0)->set_id(id);
  v1::GenerateResponse finish;
  finish.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  return {First(Message(0, "a"), 1), end, finish};
}

}  // namespace tutti::gateway
