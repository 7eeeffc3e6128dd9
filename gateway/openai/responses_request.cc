// POST /v1/responses: messages, calls and their outputs in, text and calls out, nothing kept.
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/grammar_fields.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"
#include "gateway/openai/responses_input.h"
#include "gateway/sampling_fields.h"
#include "gateway/written_json.h"

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
    {"background_options", "*"},
    {"prompt_logprobs"},
    {"access_programs"},
    {"image"},
    // Of tools that a service calls by itself: there are none.
    {"max_tool_calls", "*"},
    // An input that does not fit is refused in either case.
    {"truncation", "*"},
    {"context_management"},
    {"moderation"},
};

// `text` says in which form the answer comes.
void ReadText(FieldReader* fields, std::string_view body, GenerationRequest* request,
              v1::GenerateRequest* call) {
  ReadGrammar(fields, body, request, call);
  const Json* text = fields->Find("text");
  if (text == nullptr) return;
  if (!text->is_object()) return fields->Fail("text", "is not an object");
  FieldReader inner(*text, fields->PathOf("text."));
  const bool beside = !request->names.grammar.empty();
  const std::string path =
      ReadFormat(&inner, "format", MemberAsWritten(MemberAsWritten(body, "text"), "format"),
                 /*flat=*/true, call);
  if (!path.empty() && beside) inner.Fail("format", "cannot be served beside another format");
  if (!path.empty()) request->names.grammar = path;
  inner.Refuse({.name = "verbosity", .harmless = R"("medium")"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

// The effort of the reasoning, which is told whole, in one way, to whoever asks.
std::string ReadEffort(FieldReader* fields) {
  const Json* reasoning = fields->Find("reasoning");
  if (reasoning == nullptr) return "";
  if (!reasoning->is_object()) {
    fields->Fail("reasoning", "is not an object");
    return "";
  }
  FieldReader inner(*reasoning, fields->PathOf("reasoning."));
  const std::string effort = inner.Text("effort").value_or("");
  inner.Ignore({"summary", "generate_summary", "mode", "context"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
  return effort;
}

// A function as templates know it, from one whose members stand beside its type.
std::string ToolForTemplate(std::string_view tool) {
  std::string function;
  for (const auto& [name, value] : MembersAsWritten(tool)) {
    if (name == "type" || value == "null") continue;
    function.append(function.empty() ? "" : ",").append(Dump(name)).append(":").append(value);
  }
  return R"({"type":"function","function":{)" + function + "}}";
}

// Variables of the template: tools, in the order in which they are written, and the effort.
void ReadVariables(FieldReader* fields, std::string_view body, v1::ChatMessages* chat) {
  // A request that is refused already may have written anything there.
  if (fields->error().has_value()) return;
  std::string variables, tools;
  for (const std::string_view tool : ItemsAsWritten(MemberAsWritten(body, "tools"))) {
    absl::StrAppend(&tools, tools.empty() ? "" : ",", ToolForTemplate(tool));
  }
  if (tools.size() > kToolsBytesMax) {
    return fields->Fail(
        "tools", absl::StrCat("takes ", tools.size(), " bytes, the limit is ", kToolsBytesMax));
  }
  if (!tools.empty()) variables = "\"tools\":[" + tools + "]";
  if (const std::string effort = ReadEffort(fields); !effort.empty()) {
    absl::StrAppend(&variables, variables.empty() ? "" : ",",
                    "\"reasoning_effort\":", Dump(effort));
  }
  if (!variables.empty()) chat->set_template_kwargs_json("{" + variables + "}");
}

void ReadLogprobs(FieldReader* fields, GenerationRequest* request, v1::SamplingParams* sampling) {
  if (const auto included = fields->Texts("include")) {
    for (const std::string& name : *included) {
      // Parts of items that no answer here has.
      static const auto* const absent =
          new std::set<std::string, std::less<>>{"file_search_call.results",
                                                 "web_search_call.results",
                                                 "web_search_call.action.sources",
                                                 "message.input_image.image_url",
                                                 "computer_call_output.output.image_url",
                                                 "code_interpreter_call.outputs",
                                                 "reasoning.encrypted_content"};
      if (absent->contains(name)) continue;
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
  given("tool_choice", "auto");
  given("top_logprobs", 0);
  given("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  given("text", OrderedJson::object());
  if (!json["text"].contains("format")) json["text"]["format"] = {{"type", "text"}};
  given("tools", OrderedJson::array());
  json["previous_response_id"] = nullptr;
  json["service_tier"] = "default";
  json["background"] = false;
  json["store"] = false;
  return json;
}

}  // namespace

std::variant<GenerationRequest, ApiError> ReadResponsesRequest(const Json& body,
                                                               std::string_view text) {
  const std::string dumped = text.empty() ? body.dump() : "";
  if (text.empty()) text = dumped;
  FieldReader fields(body, "");
  GenerationRequest request;
  request.names.chat = true;
  request.names.max_tokens = "max_output_tokens";
  request.names.messages = "input";
  v1::GenerateRequest call;
  ReadCommonFields(&fields, &request, &call);
  if (call.n() > 1) fields.Fail("n", "must be 1: a response has one output");
  if (const auto max =
          fields.Integer("max_output_tokens", 0, std::numeric_limits<uint32_t>::max())) {
    call.mutable_sampling()->set_max_tokens(static_cast<uint32_t>(*max));
  }
  ReadResponsesInput(&fields, call.mutable_chat(), &request.names.places);
  ReadText(&fields, text, &request, &call);
  request.wishes =
      ReadWishes(&fields, {.body = text, .flat = true, .beside_format = IsJson(call.grammar())});
  ReadVariables(&fields, text, call.mutable_chat());
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
