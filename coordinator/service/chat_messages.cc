#include "coordinator/service/chat_messages.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "text/cut_json.h"
#include "text/template_json.h"

namespace tutti::coordinator {
namespace {

using text::SetMember;
using text::TemplateJson;
using Json = nlohmann::ordered_json;

int64_t BytesOf(const v1::ChatMessage& message) {
  size_t bytes = message.content().size() + message.reasoning_content().size() +
                 message.metadata().size() + message.name().size() + message.tool_call_id().size();
  for (const v1::ToolCall& call : message.tool_calls()) {
    bytes += call.id().size() + call.name().size() + call.arguments_json().size();
  }
  return static_cast<int64_t>(bytes);
}

absl::Status CheckSizes(const v1::ChatMessages& chat, const std::string& path) {
  if (chat.messages_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".messages is empty"));
  }
  if (chat.messages_size() > door::kChatMessagesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".messages has ", chat.messages_size(),
                                                   " entries, the limit is ",
                                                   door::kChatMessagesMax));
  }
  int64_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) bytes += BytesOf(message);
  if (bytes > door::kPromptBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".messages hold ", bytes,
                                                   " bytes, the limit is ", door::kPromptBytesMax));
  }
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& name, const std::string& path) {
  if (static_cast<int64_t>(name.size()) <= door::kChatNameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has ", name.size(), " bytes, the limit is ", door::kChatNameBytesMax));
}

// A field that only messages of one role have.
absl::Status CheckRoleOf(bool given, std::string_view role, const v1::ChatMessage& message,
                         const std::string& path) {
  if (!given || message.role() == role) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " belongs to messages with the role \"",
                                                 std::string(role), "\", this one has \"",
                                                 message.role(), "\""));
}

absl::Status CheckFields(const v1::ChatMessage& message, const std::string& path) {
  const std::string& role = message.role();
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".role must be \"system\", \"user\", \"assistant\" or \"tool\""));
  }
  TUTTI_RETURN_IF_ERROR(CheckRoleOf(message.tool_calls_size() > 0, "assistant", message,
                                    absl::StrCat(path, ".tool_calls")));
  TUTTI_RETURN_IF_ERROR(CheckRoleOf(!message.reasoning_content().empty(), "assistant", message,
                                    absl::StrCat(path, ".reasoning_content")));
  TUTTI_RETURN_IF_ERROR(CheckRoleOf(!message.metadata().empty(), "assistant", message,
                                    absl::StrCat(path, ".metadata")));
  TUTTI_RETURN_IF_ERROR(CheckRoleOf(!message.tool_call_id().empty(), "tool", message,
                                    absl::StrCat(path, ".tool_call_id")));
  TUTTI_RETURN_IF_ERROR(CheckName(message.name(), absl::StrCat(path, ".name")));
  TUTTI_RETURN_IF_ERROR(CheckName(message.metadata(), absl::StrCat(path, ".metadata")));
  TUTTI_RETURN_IF_ERROR(CheckName(message.tool_call_id(), absl::StrCat(path, ".tool_call_id")));
  if (message.tool_calls_size() <= door::kToolCallsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ".tool_calls has ",
                                                 message.tool_calls_size(),
                                                 " entries, the limit is ", door::kToolCallsMax));
}

absl::StatusOr<TemplateJson> CallJson(const v1::ToolCall& call, const std::string& path) {
  if (call.name().empty()) return absl::InvalidArgumentError(absl::StrCat(path, ".name is empty"));
  TUTTI_RETURN_IF_ERROR(CheckName(call.name(), absl::StrCat(path, ".name")));
  TUTTI_RETURN_IF_ERROR(CheckName(call.id(), absl::StrCat(path, ".id")));
  TemplateJson arguments(Json::object());
  if (!call.arguments_json().empty()) {
    arguments = text::ParseTemplateJson(call.arguments_json());
  }
  // What a model wrote comes back: of a call that was cut, what there was of it, and as text what
  // is no object at all.
  if (arguments->is_discarded()) arguments = text::ReadCutObject(call.arguments_json());
  if (!arguments->is_object()) arguments = TemplateJson(call.arguments_json());
  TemplateJson function(Json::object());
  SetMember(&*function, "name", call.name());
  SetMember(&*function, "arguments", std::move(*arguments));
  TemplateJson json(Json::object());
  if (!call.id().empty()) SetMember(&*json, "id", call.id());
  SetMember(&*json, "type", "function");
  SetMember(&*json, "function", std::move(*function));
  return json;
}

absl::StatusOr<TemplateJson> MessageJson(const v1::ChatMessage& message, const std::string& path) {
  TUTTI_RETURN_IF_ERROR(CheckFields(message, path));
  TemplateJson json(Json::object());
  SetMember(&*json, "role", message.role());
  SetMember(&*json, "content", message.content());
  TemplateJson calls(Json::array());
  for (int i = 0; i < message.tool_calls_size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(TemplateJson call, CallJson(message.tool_calls(i),
                                                       absl::StrCat(path, ".tool_calls[", i, "]")));
    calls->push_back(std::move(*call));
  }
  if (!calls->empty()) SetMember(&*json, "tool_calls", std::move(*calls));
  const std::pair<const char*, const std::string*> texts[] = {
      {"tool_call_id", &message.tool_call_id()},
      {"name", &message.name()},
      {"reasoning_content", &message.reasoning_content()},
      {"metadata", &message.metadata()}};
  for (const auto& [name, text] : texts) {
    if (!text->empty()) SetMember(&*json, name, *text);
  }
  return json;
}

}  // namespace

absl::StatusOr<TemplateJson> ChatMessagesJson(const v1::ChatMessages& chat,
                                              const std::string& path) {
  TUTTI_RETURN_IF_ERROR(CheckSizes(chat, path));
  TemplateJson messages(Json::array());
  for (int i = 0; i < chat.messages_size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(TemplateJson message,
                           MessageJson(chat.messages(i), absl::StrCat(path, ".messages[", i, "]")));
    messages->push_back(std::move(*message));
  }
  return messages;
}

absl::StatusOr<TemplateJson> TemplateKwargsJson(const v1::ChatMessages& chat,
                                                const std::string& path) {
  const std::string field = absl::StrCat(path, ".template_kwargs_json");
  if (static_cast<int64_t>(chat.template_kwargs_json().size()) > door::kTemplateKwargsBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is longer than ", door::kTemplateKwargsBytesMax, " bytes"));
  }
  TemplateJson kwargs(Json::object());
  if (!chat.template_kwargs_json().empty()) {
    kwargs = text::ParseTemplateJson(chat.template_kwargs_json());
    if (!kwargs->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is not a JSON object, such as {\"enable_thinking\": false}"));
    }
  }
  SetMember(&*kwargs, "add_generation_prompt", !chat.omit_generation_prompt());
  return kwargs;
}

}  // namespace tutti::coordinator
