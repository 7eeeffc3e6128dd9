#include "gateway/anthropic/messages_request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/callable_functions.h"
#include "gateway/field_reader.h"
#include "gateway/limits.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

constexpr int64_t kMessagesUint32Max = std::numeric_limits<uint32_t>::max();

constexpr UnservedField kUnservedOfMessages[] = {
    {"metadata", "*"}, {"service_tier", "*"},  {"cache_control", "*"},   {"inference_geo", "*"},
    {"speed", "*"},    {"diagnostics", "*"},   {"user_profile_id", "*"}, {"workspace_id", "*"},
    {"container"},     {"context_management"}, {"mcp_servers"},          {"output_format"},
};

// `written`: its text.
void ReadTool(FieldReader* tool, std::string_view written, int64_t* visits_left,
              std::vector<ToolFunction>* tools, Functions* functions, std::string* of_template) {
  const std::string type = tool->Text("type").value_or("custom");
  if (type != "custom") {
    return tool->Fail("type", "must be \"custom\": tools that a server runs are not served here");
  }
  const auto name = tool->Text("name");
  if (!name.has_value() || name->empty()) return tool->Fail("name", "is missing");
  const Json* schema = tool->Find("input_schema");
  if (schema == nullptr || !schema->is_object()) {
    return tool->Fail("input_schema", "must be an object");
  }
  OrderedJson function = {{"name", *name}};
  if (const auto description = tool->Text("description")) function["description"] = *description;
  const std::string_view parameters = MemberAsWritten(written, "input_schema");
  tools->push_back({.name = *name,
                    .path = tool->PathOf(""),
                    .parameters = schema,
                    .written = parameters,
                    .strict = tool->Bool("strict")});
  tool->Ignore({"cache_control", "input_examples", "eager_input_streaming", "allowed_callers",
                "defer_loading"});
  tool->RefuseOthers();
  (*functions)[*name] = ParametersOf(*schema, visits_left);
  std::string named = Dump(function);
  named.pop_back();
  absl::StrAppend(of_template, of_template->empty() ? "" : ",", R"({"type":"function","function":)",
                  named, R"(,"parameters":)", std::string(parameters), "}}");
}

// The tools, of `written`; in *of_template in the form in which templates have them, one after the
// other.
std::vector<ToolFunction> ReadTools(FieldReader* fields, std::string_view written,
                                    AnswerWishes* wishes, std::string* of_template) {
  std::vector<ToolFunction> read;
  const Json* tools = fields->Find("tools");
  if (tools == nullptr || fields->error().has_value()) return read;
  if (!tools->is_array()) fields->Fail("tools", "is not a list");
  const std::vector<std::string_view> items = ItemsAsWritten(written);
  int64_t visits_left = kSchemaVisitsMax;
  for (size_t i = 0; i < tools->size() && !fields->error().has_value(); ++i) {
    const std::string path = absl::StrCat("tools[", i, "]");
    if (!(*tools)[i].is_object()) {
      fields->Fail(path, "is not an object");
      break;
    }
    FieldReader tool((*tools)[i], absl::StrCat(path, "."));
    ReadTool(&tool, ItemAt(items, i), &visits_left, &read, &wishes->functions, of_template);
    if (tool.error().has_value()) fields->Fail(*tool.error());
  }
  return read;
}

// Which of the tools are to be called, and whether one has to be.
void ReadToolChoice(FieldReader* fields, const std::vector<ToolFunction>& tools,
                    AnswerWishes* wishes) {
  wishes->calls = !tools.empty();
  const Json* choice = fields->Find("tool_choice");
  if (choice == nullptr || fields->error().has_value()) return;
  if (!choice->is_object()) return fields->Fail("tool_choice", "is not an object");
  FieldReader inner(*choice, "tool_choice.");
  const std::string type = inner.Text("type").value_or("");
  if (type != "none" && type != "auto" && type != "any" && type != "tool") {
    inner.Fail("type", R"(must be "auto", "none", "any" or "tool")");
  }
  if (type == "none") wishes->calls = false;
  wishes->forced = type == "any" || type == "tool";
  wishes->named = type == "tool";
  wishes->one_call_only = inner.Bool("disable_parallel_tool_use").value_or(false);
  const std::string name = inner.Text("name").value_or("");
  inner.RefuseOthers();
  if (wishes->forced && tools.empty()) inner.Fail("type", "needs tools");
  const bool known = std::any_of(tools.begin(), tools.end(),
                                 [&](const ToolFunction& tool) { return tool.name == name; });
  if (wishes->named && !known) inner.Fail("name", "names no tool");
  if (inner.error().has_value()) return fields->Fail(*inner.error());
  if (!wishes->forced) return;
  for (const ToolFunction& tool : tools) {
    if (fields->error().has_value()) return;
    if (wishes->named && tool.name != name) continue;
    AddCallable(fields, tool, tool.strict.value_or(true), wishes);
  }
}

void ReadThinking(FieldReader* fields, OrderedJson* variables) {
  const Json* thinking = fields->Find("thinking");
  if (thinking == nullptr) return;
  if (!thinking->is_object()) return fields->Fail("thinking", "is not an object");
  FieldReader inner(*thinking, "thinking.");
  const std::string type = inner.Text("type").value_or("");
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    inner.Fail("type", "must be \"enabled\", \"disabled\" or \"adaptive\"");
  }
  if (type != "adaptive") (*variables)["enable_thinking"] = type == "enabled";
  inner.Integer("budget_tokens", 0, kMessagesUint32Max);
  inner.Ignore({"display"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

void ReadOutputConfig(FieldReader* fields, OrderedJson* variables) {
  const Json* config = fields->Find("output_config");
  if (config == nullptr) return;
  if (!config->is_object()) return fields->Fail("output_config", "is not an object");
  FieldReader inner(*config, "output_config.");
  if (const auto effort = inner.Text("effort")) (*variables)["reasoning_effort"] = *effort;
  inner.Refuse({.name = "format"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

// The prompt: what messages and their count share.
void ReadPrompt(FieldReader* fields, std::string_view text, v1::ChatMessages* chat,
                AnswerWishes* wishes, FieldNames* names) {
  names->chat = true;
  names->stop = "stop_sequences";
  // What templates show is taken as it is written: a value that was read has lost its order, and to
  // read it again with its order takes the square of its members.
  ReadConversation(fields, text, chat, names);
  OrderedJson variables = OrderedJson::object();
  ReadThinking(fields, &variables);
  ReadOutputConfig(fields, &variables);
  std::string tools;
  const std::string_view written_tools =
      fields->Find("tools") == nullptr ? "" : MemberAsWritten(text, "tools");
  if (written_tools.size() > kToolsBytesMax) {
    return fields->Fail("tools", absl::StrCat("take ", written_tools.size(),
                                              " bytes, the limit is ", kToolsBytesMax));
  }
  const std::vector<ToolFunction> functions = ReadTools(fields, written_tools, wishes, &tools);
  ReadToolChoice(fields, functions, wishes);
  std::string all = Dump(variables);
  all.pop_back();
  const auto add = [&](absl::string_view members) {
    absl::StrAppend(&all, all.size() > 1 ? "," : "", members);
  };
  if (!tools.empty()) add(absl::StrCat(R"("tools":[)", tools, "]"));
  if (const Json* given = fields->Find("chat_template_kwargs")) {
    if (!given->is_object()) return fields->Fail("chat_template_kwargs", "is not an object");
    // The last of a name counts.
    std::string members(MemberAsWritten(text, "chat_template_kwargs"));
    if (!given->empty() && members.size() > 2) add(members.substr(1, members.size() - 2));
  }
  if (all.size() > 1) chat->set_template_kwargs_json(all + "}");
  if (chat->template_kwargs_json().size() > kToolsBytesMax + kTemplateKwargsBytesMax) {
    fields->Fail("tools", absl::StrCat("take more than ", kToolsBytesMax, " bytes"));
  }
}

void ReadSampling(FieldReader* fields, MessagesRequest* request, v1::GenerateRequest* call) {
  v1::SamplingParams* const sampling = call->mutable_sampling();
  if (const auto model = fields->Text("model")) call->set_model(*model);
  const auto max_tokens = fields->Integer("max_tokens", 0, kMessagesUint32Max);
  if (!max_tokens.has_value()) fields->Fail("max_tokens", "is missing");
  sampling->set_max_tokens(static_cast<uint32_t>(max_tokens.value_or(0)));
  if (const auto value = fields->Number("temperature")) sampling->set_temperature(*value);
  if (const auto value = fields->Number("top_p")) sampling->set_top_p(*value);
  if (const auto value = fields->Integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    sampling->set_top_k(static_cast<int32_t>(*value));
  }
  if (const auto stops = fields->Texts("stop_sequences")) {
    for (const std::string& stop : *stops) sampling->add_stop(stop);
  }
  if (const auto salt = fields->Text("cache_salt")) call->set_cache_salt(*salt);
  request->stream = fields->Bool("stream").value_or(false);
}

}  // namespace

std::variant<MessagesRequest, ApiError> ReadMessagesRequest(const Json& body,
                                                            std::string_view text) {
  FieldReader fields(body, "");
  MessagesRequest request;
  v1::GenerateRequest& call = request.calls.emplace_back();
  ReadPrompt(&fields, text, call.mutable_chat(), &request.wishes, &request.names);
  ReadSampling(&fields, &request, &call);
  for (const UnservedField& field : kUnservedOfMessages) fields.Refuse(field);
  fields.RefuseOthers();
  if (fields.error().has_value()) return *fields.error();
  return request;
}

std::variant<CountRequest, ApiError> ReadCountRequest(const Json& body, std::string_view text) {
  FieldReader fields(body, "");
  CountRequest request;
  AnswerWishes wishes;
  if (const auto model = fields.Text("model")) request.request.set_model(*model);
  ReadPrompt(&fields, text, request.request.mutable_chat(), &wishes, &request.names);
  for (const UnservedField& field : kUnservedOfMessages) fields.Refuse(field);
  fields.RefuseOthers();
  if (fields.error().has_value()) return *fields.error();
  return request;
}

}  // namespace tutti::gateway
