// POST /v1/responses: text in, text out, nothing kept.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/openai/generation_request.h"
#include "gateway/sampling_fields.h"

namespace tutti::gateway {
namespace {

constexpr char kWithLogprobs[] = "message.output_text.logprobs";

// The fields of responses only; see also kUnserved of common_fields.cc. Answers are not stored, so
// that nothing can be continued by its name.
constexpr UnservedField kUnservedOfResponses[] = {
    {"previous_response_id"},
    {"conversation"},
    {"prompt"},
    {"background", "false"},
    {"tools"},
    // Without tools there is nothing to choose or count.
    {"tool_choice", "*"},
    {"max_tool_calls", "*"},
    // An input that does not fit is refused in either case.
    {"truncation", "*"},
    {"context_management"},
    {"moderation"},
};

// A text, or a list of parts of text.
std::string ReadParts(FieldReader* item, bool is_reasoning) {
  const Json* content = item->Find("content");
  if (content == nullptr) {
    item->Fail("content", "is missing");
    return "";
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    item->Fail("content", "is neither a text nor a list of parts");
    return "";
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string path = absl::StrCat("content[", i, "]");
    const Json& value = (*content)[i];
    if (!value.is_object()) {
      item->Fail(path, "is not an object");
      return "";
    }
    FieldReader part(value, absl::StrCat(item->PathOf(path), "."));
    const std::string type = part.Text("type").value_or("");
    if (is_reasoning && type != "reasoning_text") {
      part.Fail("type", "must be \"reasoning_text\": nothing else is reasoning");
    }
    if (!is_reasoning && type != "input_text" && type != "output_text" && type != "text") {
      part.Fail("type", "must be \"input_text\" or \"output_text\": this model reads nothing else");
    }
    const auto piece = part.Text("text");
    if (!piece.has_value()) part.Fail("text", "is not a text");
    part.Refuse({.name = "annotations", .harmless = "*"});
    part.Refuse({.name = "logprobs", .harmless = "*"});
    part.RefuseOthers();
    if (part.error().has_value()) item->Fail(*part.error());
    absl::StrAppend(&text, i > 0 ? "\n" : "", piece.value_or(""));
  }
  return text;
}

void ReadInputMessage(FieldReader* item, v1::ChatMessage* message) {
  std::string role = item->Text("role").value_or("");
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant") {
    return item->Fail("role", "must be \"user\", \"assistant\", \"system\" or \"developer\"");
  }
  message->set_role(std::move(role));
  message->set_content(ReadParts(item, /*is_reasoning=*/false));
  for (const std::string_view name : {"id", "status", "phase"}) {
    item->Refuse({.name = name, .harmless = "*"});
  }
  item->RefuseOthers();
}

// The model's thoughts before the assistant's message that follows, as an answer of ours has it.
std::string ReadReasoningItem(FieldReader* item) {
  std::string text;
  if (item->Find("content") != nullptr) text = ReadParts(item, /*is_reasoning=*/true);
  for (const std::string_view name : {"id", "status", "summary"}) {
    item->Refuse({.name = name, .harmless = "*"});
  }
  item->Refuse({.name = "encrypted_content"});
  item->RefuseOthers();
  return text;
}

// Adds the message of one item. Reasoning waits for the message that it led to.
void ReadItem(FieldReader* item, std::string* reasoning, v1::ChatMessages* chat) {
  const std::string type = item->Text("type").value_or("message");
  if (type == "reasoning") {
    absl::StrAppend(reasoning, reasoning->empty() ? "" : "\n", ReadReasoningItem(item));
    return;
  }
  if (type != "message") {
    return item->Fail("type",
                      "must be \"message\" or \"reasoning\": nothing else is served here yet");
  }
  v1::ChatMessage message;
  ReadInputMessage(item, &message);
  if (!reasoning->empty()) {
    v1::ChatMessage* const thought =
        message.role() == "assistant" ? &message : chat->add_messages();
    thought->set_role("assistant");
    thought->set_reasoning_content(std::exchange(*reasoning, ""));
  }
  *chat->add_messages() = std::move(message);
}

void ReadInput(FieldReader* fields, v1::ChatMessages* chat) {
  if (const auto instructions = fields->Text("instructions")) {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("system");
    message->set_content(*instructions);
  }
  const Json* input = fields->Find("input");
  if (input != nullptr && input->is_string()) {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("user");
    message->set_content(input->get<std::string>());
    return;
  }
  if (input == nullptr || !input->is_array() || input->empty()) {
    return fields->Fail("input", "must be a text or a list of messages");
  }
  std::string reasoning;
  for (size_t i = 0; i < input->size(); ++i) {
    const std::string path = absl::StrCat("input[", i, "]");
    if (!(*input)[i].is_object()) return fields->Fail(path, "is not an object");
    FieldReader item((*input)[i], absl::StrCat(fields->PathOf(path), "."));
    ReadItem(&item, &reasoning, chat);
    if (item.error().has_value()) return fields->Fail(*item.error());
  }
  if (!reasoning.empty()) {
    fields->Fail(absl::StrCat("input[", input->size() - 1, "]"),
                 "is reasoning without the message that it led to");
  }
}

// `text` says in which form the answer comes; only plain text does.
void ReadText(FieldReader* fields) {
  const Json* text = fields->Find("text");
  if (text == nullptr) return;
  if (!text->is_object()) return fields->Fail("text", "is not an object");
  FieldReader inner(*text, fields->PathOf("text."));
  inner.Refuse({.name = "format", .harmless = R"({"type": "text"})"});
  inner.Refuse({.name = "verbosity", .harmless = R"("medium")"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

// The effort is a variable of the template, as in chats; a summary would have to be written.
void ReadReasoning(FieldReader* fields, v1::ChatMessages* chat) {
  const Json* reasoning = fields->Find("reasoning");
  if (reasoning == nullptr) return;
  if (!reasoning->is_object()) return fields->Fail("reasoning", "is not an object");
  FieldReader inner(*reasoning, fields->PathOf("reasoning."));
  if (const auto effort = inner.Text("effort")) {
    chat->set_template_kwargs_json(
        Json{{"reasoning_effort", *effort}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  inner.Refuse({.name = "summary"});
  inner.Refuse({.name = "generate_summary"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

void ReadLogprobs(FieldReader* fields, GenerationRequest* request, v1::SamplingParams* sampling) {
  if (const auto included = fields->Texts("include")) {
    for (const std::string& name : *included) {
      if (name != kWithLogprobs) {
        return fields->Fail("include", absl::StrCat("asks for something else than \"",
                                                    kWithLogprobs, "\", which is not served here"));
      }
      request->logprobs = true;
    }
  }
  sampling->set_logprobs(request->logprobs);
  const auto top = fields->Integer("top_logprobs", 0, std::numeric_limits<int32_t>::max());
  if (!top.has_value() || *top == 0) return;
  if (!request->logprobs) {
    return fields->Fail("top_logprobs",
                        absl::StrCat("is for log-probabilities: include \"", kWithLogprobs, "\""));
  }
  sampling->set_top_logprobs(static_cast<uint32_t>(*top));
}

// The members of a request that OpenAI's answers repeat.
OrderedJson Repeated(const Json& body) {
  OrderedJson json;
  const auto given = [&](const char* name, const OrderedJson& otherwise) {
    const auto found = body.find(name);
    json[name] = found == body.end() || found->is_null() ? otherwise : OrderedJson(*found);
  };
  for (const char* name : {"instructions", "max_output_tokens", "temperature", "top_p", "user",
                           "safety_identifier", "prompt_cache_key"}) {
    given(name, nullptr);
  }
  given("metadata", OrderedJson::object());
  given("truncation", "disabled");
  given("parallel_tool_calls", true);
  given("top_logprobs", 0);
  given("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  json["text"] = {{"format", {{"type", "text"}}}};
  json["tool_choice"] = "auto";
  json["tools"] = OrderedJson::array();
  json["previous_response_id"] = nullptr;
  json["service_tier"] = "default";
  json["background"] = false;
  json["store"] = false;
  return json;
}

}  // namespace

std::variant<GenerationRequest, ApiError> ReadResponsesRequest(const Json& body) {
  FieldReader fields(body, "");
  GenerationRequest request;
  request.names = {.chat = true, .max_tokens = "max_output_tokens", .messages = "input"};
  v1::GenerateRequest call;
  ReadCommonFields(&fields, &request, &call);
  if (call.n() > 1) fields.Fail("n", "must be 1: a response has one output");
  if (const auto max =
          fields.Integer("max_output_tokens", 0, std::numeric_limits<uint32_t>::max())) {
    call.mutable_sampling()->set_max_tokens(static_cast<uint32_t>(*max));
  }
  ReadInput(&fields, call.mutable_chat());
  ReadText(&fields);
  ReadReasoning(&fields, call.mutable_chat());
  ReadLogprobs(&fields, &request, call.mutable_sampling());
  for (const UnservedField& field : kUnservedOfResponses) fields.Refuse(field);
  RefuseUnserved(&fields);
  if (fields.error().has_value()) return *fields.error();
  request.response = std::make_shared<const OrderedJson>(Repeated(body));
  request.calls.push_back(std::move(call));
  request.echoes.emplace_back();
  return request;
}

}  // namespace tutti::gateway
