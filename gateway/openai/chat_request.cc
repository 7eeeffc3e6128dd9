// POST /v1/chat/completions, and the conversations of POST /tokenize.
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/grammar_fields.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"
#include "gateway/sampling_fields.h"

namespace tutti::gateway {
namespace {

// The fields of conversations only; see also kUnserved of common_fields.cc.
constexpr UnservedField kUnservedOfChats[] = {
    {"functions"},
    {"function_call"},
    {"modalities", R"(["text"])"},
    {"audio"},
    {"verbosity", R"("medium")"},
    {"web_search_options"},
    {"moderation"},
    {"echo", "false"},
    {"add_special_tokens", "false"},
    {"documents"},
    {"chat_template"},
    {"media_io_kwargs"},
    {"mm_processor_kwargs"},
};

// A text, or a list of parts, which are joined by line ends as vLLM does.
void ReadContent(FieldReader* fields, v1::ChatMessage* message) {
  const Json* content = fields->Find("content");
  if (content == nullptr) return;
  if (content->is_string()) return message->set_content(content->get<std::string>());
  if (!content->is_array()) return fields->Fail("content", "is neither a text nor a list of parts");
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string path = absl::StrCat("content[", i, "]");
    if (!(*content)[i].is_object()) return fields->Fail(path, "is not an object");
    FieldReader part((*content)[i], absl::StrCat(fields->PathOf(path), "."));
    const auto type = part.Text("type");
    const auto piece = part.Text("text");
    if (type != "text") {
      return fields->Fail(path + ".type", "must be \"text\": this model reads nothing else");
    }
    if (!piece.has_value()) return fields->Fail(path + ".text", "is not a text");
    part.Ignore({"cache_control", "prompt_cache_breakpoint"});
    part.RefuseOthers();
    if (part.error().has_value()) return fields->Fail(*part.error());
    absl::StrAppend(&text, i > 0 ? "\n" : "", *piece);
  }
  message->set_content(std::move(text));
}

void ReadToolCalls(FieldReader* fields, v1::ChatMessage* message) {
  const Json* calls = fields->Find("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) return fields->Fail("tool_calls", "is not a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string path = absl::StrCat("tool_calls[", i, "]");
    const Json& value = (*calls)[i];
    if (!value.is_object()) return fields->Fail(path, "is not an object");
    FieldReader call(value, absl::StrCat(fields->PathOf(path), "."));
    const Json* function = call.Find("function");
    if (call.Text("type").value_or("function") != "function" || function == nullptr ||
        !function->is_object()) {
      return fields->Fail(path, "is not a call of a function");
    }
    call.Refuse({.name = "index", .harmless = "*"});
    v1::ToolCall* made = message->add_tool_calls();
    made->set_id(call.Text("id").value_or(""));
    call.RefuseOthers();
    FieldReader named(*function, call.PathOf("function."));
    made->set_name(named.Text("name").value_or(""));
    made->set_arguments_json(named.Text("arguments").value_or(""));
    named.RefuseOthers();
    if (call.error().has_value()) return fields->Fail(*call.error());
    if (named.error().has_value()) return fields->Fail(*named.error());
  }
}

void ReadMessage(FieldReader* fields, v1::ChatMessage* message) {
  std::string role = fields->Text("role").value_or("");
  // OpenAI's newer name of it.
  if (role == "developer") role = "system";
  message->set_role(std::move(role));
  ReadContent(fields, message);
  ReadToolCalls(fields, message);
  message->set_tool_call_id(fields->Text("tool_call_id").value_or(""));
  message->set_name(fields->Text("name").value_or(""));
  message->set_metadata(fields->Text("metadata").value_or(""));
  const auto reasoning = fields->Text("reasoning");
  const auto reasoning_content = fields->Text("reasoning_content");
  message->set_reasoning_content(reasoning ? *reasoning : reasoning_content.value_or(""));
  for (const std::string_view name : {"refusal", "audio", "function_call"}) {
    fields->Refuse({.name = name});
  }
  // What SDKs and bridges put there: of answers that come back, and of caches.
  fields->Ignore({"annotations", "cache_control", "provider_specific_fields", "id"});
  fields->RefuseOthers();
}

// The member as it is written. Nothing: it is too large, and the service would refuse it under
// another name.
std::optional<std::string> ReadWritten(FieldReader* fields, std::string_view text,
                                       std::string_view name, const Json& value, size_t bytes_max) {
  const size_t bytes = value.dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (bytes <= bytes_max) return AsWritten(text, name, value, bytes_max);
  fields->Fail(name, absl::StrCat("takes ", bytes, " bytes, the limit is ", bytes_max));
  return std::nullopt;
}

// Variables of the template: those given, the tools as they are written, and reasoning_effort,
// which is one for templates. Of two of a name the last counts.
void ReadTemplateVariables(FieldReader* fields, std::string_view text, v1::ChatMessages* chat) {
  std::string members;
  // As a field of its own, which those in chat_template_kwargs go before.
  const auto thinking = fields->Bool("enable_thinking");
  const auto add = [&members](std::string_view more) {
    absl::StrAppend(&members, members.empty() ? "" : ",",
                    absl::string_view(more.data(), more.size()));
  };
  if (thinking) add(*thinking ? "\"enable_thinking\":true" : "\"enable_thinking\":false");
  if (const Json* given = fields->Find("chat_template_kwargs")) {
    if (!given->is_object()) return fields->Fail("chat_template_kwargs", "is not an object");
    const auto written =
        ReadWritten(fields, text, "chat_template_kwargs", *given, kTemplateKwargsBytesMax);
    if (!written.has_value()) return;
    if (!given->empty()) add(std::string_view(*written).substr(1, written->size() - 2));
  }
  const Json* tools = fields->Find("tools");
  if (tools != nullptr && !tools->empty()) {
    const auto written = ReadWritten(fields, text, "tools", *tools, kToolsBytesMax);
    if (!written.has_value()) return;
    add("\"tools\":" + *written);
  }
  if (const auto effort = fields->Text("reasoning_effort")) {
    add("\"reasoning_effort\":" + Dump(*effort));
  }
  if (!members.empty()) chat->set_template_kwargs_json("{" + members + "}");
}

}  // namespace

void ReadChat(FieldReader* fields, std::string_view text, v1::ChatMessages* chat) {
  const Json* messages = fields->Find("messages");
  if (messages == nullptr || !messages->is_array()) {
    return fields->Fail("messages", "must be a list of messages");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string path = absl::StrCat("messages[", i, "]");
    const Json& value = (*messages)[i];
    if (!value.is_object()) return fields->Fail(path, "is not an object");
    FieldReader message(value, absl::StrCat(fields->PathOf(path), "."));
    ReadMessage(&message, chat->add_messages());
    if (message.error().has_value()) return fields->Fail(*message.error());
  }
  ReadTemplateVariables(fields, text, chat);
  const auto opens_another = fields->Bool("add_generation_prompt");
  const bool continues = fields->Bool("continue_final_message").value_or(false);
  if (continues && opens_another.value_or(false)) {
    return fields->Fail("continue_final_message",
                        "cannot be served with add_generation_prompt: the prompt ends with the "
                        "last message or opens another");
  }
  chat->set_continue_final_message(continues);
  chat->set_omit_generation_prompt(!opens_another.value_or(!continues));
}

std::variant<GenerationRequest, ApiError> ReadChatRequest(const Json& body, std::string_view text) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  FieldReader fields(body, "");
  GenerationRequest request;
  request.names.chat = true;
  v1::GenerateRequest call;
  ReadCommonFields(&fields, &request, &call);
  v1::SamplingParams* sampling = call.mutable_sampling();
  const auto old_max = fields.Integer("max_tokens", 0, kMax);
  const auto new_max = fields.Integer("max_completion_tokens", 0, kMax);
  if (new_max.has_value()) request.names.max_tokens = "max_completion_tokens";
  if (const auto max = new_max ? new_max : old_max) {
    sampling->set_max_tokens(static_cast<uint32_t>(*max));
  }
  request.logprobs = fields.Bool("logprobs").value_or(false);
  sampling->set_logprobs(request.logprobs);
  if (const auto top = fields.Integer("top_logprobs", 0, kMax)) {
    if (!request.logprobs && *top > 0) {
      fields.Fail("top_logprobs", "is for log-probabilities: set logprobs to true");
    }
    sampling->set_top_logprobs(static_cast<uint32_t>(*top));
  }
  ReadChat(&fields, text, call.mutable_chat());
  ReadGrammar(&fields, text, &request, &call);
  request.wishes = ReadWishes(&fields, {.body = text, .beside_format = IsJson(call.grammar())});
  ReadPromptLogprobs(&fields, &request);
  for (const UnservedField& field : kUnservedOfChats) fields.Refuse(field);
  RefuseUnserved(&fields);
  if (fields.error().has_value()) return *fields.error();
  request.calls.push_back(std::move(call));
  request.echoes.emplace_back();
  return request;
}

}  // namespace tutti::gateway
