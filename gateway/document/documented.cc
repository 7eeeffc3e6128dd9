#include "gateway/document/documented.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "gateway/anthropic/messages_request.h"
#include "gateway/openai/generation_request.h"
#include "gateway/vllm/generate_request.h"

namespace tutti::gateway {
namespace {

using Caller = DocumentedPath::Caller;

// Of requests that have chats: the forms of a choice of functions beside the usual one.
constexpr std::string_view kToolChoiceExamples[] = {
    R"({"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "name": "f"}})",
    R"({"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
          {"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}]}}})",
    R"({"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
          {"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}]}})",
};
constexpr std::string_view kChatExamples[] = {
    R"({"model": "m", "messages": [
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "tool_calls": [
          {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "d"}],
        "stream": true, "stream_options": {"include_usage": true}, "logit_bias": {"5": 1.5},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "auto", "chat_template_kwargs": {"a": 1},
        "response_format": {"type": "json_schema",
                            "json_schema": {"name": "n", "schema": {"type": "object"}}}})",
    R"({"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "prompt_logprobs": 1, "logprobs": true, "top_logprobs": 1})",
    R"({"messages": [{"role": "user", "content": "a"}],
        "speculation": {"mode": "lookup", "max_tokens": 4},
        "structured_outputs": {"json": {"type": "object"}}})",
    R"({"messages": [{"role": "user", "content": "a"}], "structured_outputs": {"json": "{}"}})",
    R"({"messages": [{"role": "user", "content": "a"}], "structured_outputs": {"choice": ["a"]}})",
};

constexpr std::string_view kCompletionExamples[] = {
    R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": true},
        "logit_bias": {"5": 1.5}, "structured_outputs": {"json": {"type": "object"}}})",
    R"({"prompt": [1, 2], "structured_outputs": {"json": "{}"},
        "speculation": {"mode": "lookup", "max_tokens": 4}})",
    R"({"prompt": ["a"], "structured_outputs": {"choice": ["a"]}})",
    R"({"prompt": [[1, 2]], "response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}}}})",
};

constexpr std::string_view kResponsesExamples[] = {
    R"({"input": "a", "instructions": "b", "stream": true,
        "stream_options": {"include_usage": true}, "logit_bias": {"5": 1.5},
        "tools": [{"type": "function", "name": "f", "parameters": {}}], "tool_choice": "auto",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low"}, "speculation": {"mode": "lookup", "max_tokens": 4}})",
    R"({"input": [
          {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
          {"type": "message", "role": "user", "content": "a"},
          {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "b"}]},
          {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "c", "output": "d"},
          {"type": "function_call", "call_id": "e", "name": "f", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "e",
           "output": [{"type": "input_text", "text": "a"}]}],
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": {"type": "function", "name": "f"},
        "response_format": {"type": "text"}})",
    R"({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
          {"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}]},
        "structured_outputs": {"json": {"type": "object"}}})",
    R"({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
          {"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}]}}})",
    R"({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}})",
    R"({"input": "a", "structured_outputs": {"json": "{}"},
        "response_format": {"type": "text"}})",
    R"({"input": "a", "structured_outputs": {"choice": ["a"]}})",
    R"({"input": "a", "response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}}}})",
};

// Without max_tokens they are counts.
constexpr std::string_view kMessagesExamples[] = {
    R"({"max_tokens": 5, "system": "a", "messages": [
          {"role": "user", "content": [{"type": "text", "text": "a"}]},
          {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "b"}, {"type": "text", "text": "c"},
            {"type": "tool_use", "id": "d", "name": "f", "input": {}}]},
          {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "d", "content": "e"},
            {"type": "tool_result", "tool_use_id": "d",
             "content": [{"type": "text", "text": "e"}]}]}],
        "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 5}, "output_config": {"effort": "low"},
        "chat_template_kwargs": {"a": 1}})",
    R"({"max_tokens": 5, "system": [{"type": "text", "text": "a"}],
        "messages": [{"role": "user", "content": "a"}]})",
};
constexpr std::string_view kIdsExamples[] = {
    R"({"token_ids": [1, 2], "sampling_params": {"logit_bias": {"5": 1.5}}, "stream": true,
        "stream_options": {"include_usage": true}})",
};

constexpr std::string_view kTokenizeExamples[] = {
    R"({"prompt": "a"})",
    R"({"messages": [
          {"role": "system", "content": [{"type": "text", "text": "a"}]},
          {"role": "user", "content": "a"},
          {"role": "assistant", "content": "b", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "tool", "tool_call_id": "c", "content": "d"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "auto", "chat_template_kwargs": {"a": 1}})",
    R"({"messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}})",
};
constexpr std::string_view kDetokenizeExamples[] = {R"({"tokens": [1, 2]})"};

template <size_t... counts>
std::vector<Json> All(const std::string_view (&... examples)[counts]) {
  std::vector<Json> all;
  const auto add = [&all](const auto& some) {
    for (const std::string_view text : some) all.push_back(Json::parse(text));
  };
  (add(examples), ...);
  return all;
}

std::vector<Json> CountExamples() {
  std::vector<Json> all = All(kMessagesExamples);
  for (Json& one : all) one.erase("max_tokens");
  return all;
}

// What a reader of a body and its text says of one.
template <class Request>
std::function<std::optional<ApiError>(const Json&)> Said(
    std::variant<Request, ApiError> (*read)(const Json&, std::string_view)) {
  return [read](const Json& body) -> std::optional<ApiError> {
    const std::string text = body.dump();
    auto done = read(body, text);
    if (auto* const error = std::get_if<ApiError>(&done)) return std::move(*error);
    return std::nullopt;
  };
}
template <class Request>
std::function<std::optional<ApiError>(const Json&)> Said(
    std::variant<Request, ApiError> (*read)(const Json&)) {
  return [read](const Json& body) -> std::optional<ApiError> {
    auto done = read(body);
    if (auto* const error = std::get_if<ApiError>(&done)) return std::move(*error);
    return std::nullopt;
  };
}

}  // namespace

const std::vector<DocumentedPath>& DocumentedPaths() {
  static const auto* const paths = new std::vector<DocumentedPath>{
      {"POST", "/v1/chat/completions", "The next message of a conversation", "ChatRequest"},
      {"POST", "/v1/completions", "Text that goes on", "CompletionRequest"},
      {"POST", "/v1/responses", "OpenAI's responses; none is stored", "ResponseRequest"},
      {"POST", "/v1/messages", "Anthropic's messages", "MessageRequest"},
      {"POST", "/v1/messages/count_tokens", "How many tokens such a prompt has", "CountRequest"},
      {"POST", "/inference/v1/generate", "vLLM's: ids of tokens in, ids out", "IdsRequest"},
      {"POST", "/tokenize", "The tokens of a text or a conversation", "TokenizeRequest"},
      {"POST", "/detokenize", "The text of tokens", "DetokenizeRequest"},
      {"GET", "/v1/models", "The names that the model is served under"},
      {"GET", "/v1/models/{name}", "One of them"},
      {"GET", "/load", "Requests that this gateway has given to the service"},
      {"GET", "/health", "200 while the service serves, else 503", "", Caller::kAnybody},
      {"GET", "/ready", "The same", "", Caller::kAnybody},
      {"GET", "/ping", "The same", "", Caller::kAnybody},
      {"POST", "/ping", "The same", "", Caller::kAnybody},
      {"GET", "/live", "200 while the gateway runs", "", Caller::kAnybody},
      {"GET", "/version", "Of the gateway", "", Caller::kAnybody},
      {"GET", "/openapi.json", "This document", "", Caller::kAnybody},
      {"GET", "/metrics", "Figures for Prometheus", "", Caller::kOperator, "text/plain"},
      {"GET", "/tutti/status", "What tutti status --json prints", "", Caller::kOperator},
      {"GET", "/tutti/requests", "The gateway's own figures of requests", "", Caller::kOperator},
      {"GET", "/tutti/live", "Both, as they change", "", Caller::kOperator, "text/event-stream"},
  };
  return *paths;
}

bool IsDocumented(std::string_view method, std::string_view path) {
  const std::string with_version = "/v1" + std::string(path);
  const auto& all = DocumentedPaths();
  return std::any_of(all.begin(), all.end(), [&](const DocumentedPath& one) {
    return one.method == method && (one.path == path || one.path == with_version);
  });
}

const std::vector<DocumentedBody>& DocumentedBodies() {
  static const auto* const bodies = new std::vector<DocumentedBody>{
      {"ChatRequest", All(kChatExamples, kToolChoiceExamples), Said(ReadChatRequest)},
      {"CompletionRequest", All(kCompletionExamples), Said(ReadCompletionRequest)},
      {"ResponseRequest", All(kResponsesExamples), Said(ReadResponsesRequest)},
      {"MessageRequest", All(kMessagesExamples), Said(ReadMessagesRequest)},
      {"CountRequest", CountExamples(), Said(ReadCountRequest)},
      {"IdsRequest", All(kIdsExamples), Said(ReadIdsRequest)},
      {"TokenizeRequest", All(kTokenizeExamples, kToolChoiceExamples), Said(ReadTokenizeRequest)},
      {"DetokenizeRequest", All(kDetokenizeExamples), Said(ReadDetokenizeRequest)},
  };
  return *bodies;
}

}  // namespace tutti::gateway
