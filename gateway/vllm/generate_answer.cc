#include "gateway/vllm/generate_answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

// vLLM's value for minus infinity, which JSON cannot.
double IdLogprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
}

// With the text of a token as chats have it, or its id alone.
OrderedJson CandidateJson(int32_t id, const std::string& bytes, float logprob, bool with_text) {
  if (!with_text) return {{"token_id", id}, {"logprob", IdLogprob(logprob)}};
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", bytes}, {"logprob", IdLogprob(logprob)}, {"bytes", std::move(list)}};
}

std::vector<int32_t> StopIdsOf(const IdsRequest& request) {
  if (request.calls.empty()) return {};
  const auto& ids = request.calls.front().sampling().stop_token_ids();
  return {ids.begin(), ids.end()};
}

}  // namespace

IdsAnswer::IdsAnswer(IdsRequest request, std::vector<int32_t> prompt_ids, size_t outputs,
                     std::string id, int64_t created, std::string model)
    : request_(std::move(request)),
      prompt_ids_(std::move(prompt_ids)),
      stop_ids_(StopIdsOf(request_)),
      id_(std::move(id)),
      model_(std::move(model)),
      created_(created),
      choices_(outputs) {}

OrderedJson IdsAnswer::LogprobJson(const v1::OutputToken& token) const {
  const bool with_text = request_.with_text;
  OrderedJson json = CandidateJson(token.id(), token.token(), token.logprob(), with_text);
  OrderedJson top = OrderedJson::array();
  int rank = 0;
  for (const v1::TokenLogprob& candidate : token.top()) {
    OrderedJson one =
        CandidateJson(candidate.id(), candidate.token(), candidate.logprob(), with_text);
    ++rank;
    if (!with_text) one["rank"] = rank;
    if (!with_text && candidate.id() == token.id()) json["rank"] = rank;
    top.push_back(std::move(one));
  }
  // Where none was asked for, vLLM names the token itself.
  if (top.empty()) {
    top.push_back(CandidateJson(token.id(), token.token(), token.logprob(), with_text));
  }
  json["top_logprobs"] = std::move(top);
  return json;
}

OrderedJson IdsAnswer::ChoiceJson(size_t index, const Choice& choice, bool is_finished) const {
  OrderedJson json = {{"index", index}};
  json["finish_reason"] = nullptr;
  if (is_finished) {
    json["finish_reason"] = choice.finish.reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop";
  }
  json["stop_reason"] = choice.stop_reason;
  json["token_ids"] = choice.ids;
  if (request_.with_text) json["text"] = choice.text;
  json["logprobs"] = nullptr;
  if (request_.logprobs) json["logprobs"] = {{"content", choice.logprobs}};
  return json;
}

OrderedJson IdsAnswer::UsageJson() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", output_tokens_},
          {"total_tokens", prompt_tokens_ + output_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
}

std::string IdsAnswer::Chunk(OrderedJson choices) {
  OrderedJson json = {{"request_id", id_}, {"output_mode", request_.with_text ? "text" : "tokens"}};
  if (choices.empty()) json["usage"] = UsageJson();
  if (!std::exchange(begun_, true) && request_.with_prompt_ids) {
    json["prompt_token_ids"] = prompt_ids_;
  }
  json["choices"] = std::move(choices);
  return absl::StrCat("data: ", Dump(json), "\n\n");
}

std::string IdsAnswer::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (prompt > 0 || message.output() >= choices_.size()) return "";
  if (message.has_started()) prompt_tokens_ = message.started().prompt_tokens();
  Choice& choice = choices_[message.output()];
  choice.text += message.text();
  output_tokens_ += message.tokens_size();
  for (const v1::OutputToken& token : message.tokens()) {
    choice.ids.push_back(token.id());
    if (request_.logprobs) choice.logprobs.push_back(LogprobJson(token));
    if (std::find(stop_ids_.begin(), stop_ids_.end(), token.id()) != stop_ids_.end()) {
      choice.stop_reason = token.id();
    }
  }
  if (message.has_finish()) {
    choice.finish = message.finish();
    cached_tokens_ += message.finish().usage().cached_prompt_tokens();
    if (!choice.finish.stop().empty()) choice.stop_reason = choice.finish.stop();
  }
  if (!request_.stream ||
      (message.tokens_size() == 0 && message.text().empty() && !message.has_finish())) {
    return "";
  }
  std::string chunk =
      Chunk(OrderedJson::array({ChoiceJson(message.output(), choice, message.has_finish())}));
  choice.text.clear();
  choice.ids = choice.logprobs = OrderedJson::array();
  return chunk;
}

std::string IdsAnswer::OnEnd() {
  if (request_.stream) {
    const std::string usage = request_.include_usage ? Chunk(OrderedJson::array()) : "";
    return usage + "data: [DONE]\n\n";
  }
  OrderedJson choices = OrderedJson::array();
  for (size_t i = 0; i < choices_.size(); ++i) choices.push_back(ChoiceJson(i, choices_[i], true));
  OrderedJson body = {{"request_id", id_}, {"model", model_}, {"created", created_}};
  body["output_mode"] = request_.with_text ? "text" : "tokens";
  body["choices"] = std::move(choices);
  body["usage"] = UsageJson();
  if (request_.with_prompt_ids) body["prompt_token_ids"] = prompt_ids_;
  return Dump(body);
}

std::string IdsAnswer::OnError(const ApiError& error) {
  if (!request_.stream) return ErrorBody(error);
  return absl::StrCat("data: ", ErrorBody(error), "\n\ndata: [DONE]\n\n");
}

}  // namespace tutti::gateway
