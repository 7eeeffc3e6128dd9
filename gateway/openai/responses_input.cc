// `instructions` and `input` of POST /v1/responses.
#include "gateway/openai/responses_input.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

// A text, or a list of parts of text, in that member.
std::string ReadParts(FieldReader* item, std::string_view member, bool is_reasoning) {
  const Json* content = item->Find(member);
  if (content == nullptr) {
    item->Fail(member, "is missing");
    return "";
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    item->Fail(member, "is neither a text nor a list of parts");
    return "";
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string path = absl::StrCat(std::string(member), "[", i, "]");
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
    part.Ignore({"annotations", "logprobs", "cache_control", "prompt_cache_breakpoint"});
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
  message->set_content(ReadParts(item, "content", /*is_reasoning=*/false));
  item->Ignore({"id", "status", "phase", "cache_control"});
  item->RefuseOthers();
}

// The model's thoughts before the assistant's message that follows, as an answer of ours has it.
std::string ReadReasoningItem(FieldReader* item) {
  std::string text;
  if (item->Find("content") != nullptr) text = ReadParts(item, "content", /*is_reasoning=*/true);
  // Nothing of ours is encrypted: that of others nobody here could read.
  item->Ignore({"id", "status", "summary"});
  item->Refuse({.name = "encrypted_content"});
  item->RefuseOthers();
  return text;
}

// A call as an answer of ours has it.
v1::ToolCall ReadCallItem(FieldReader* item) {
  v1::ToolCall call;
  call.set_id(item->Text("call_id").value_or(""));
  call.set_name(item->Text("name").value_or(""));
  call.set_arguments_json(item->Text("arguments").value_or(""));
  if (call.id().empty()) item->Fail("call_id", "is missing");
  if (call.name().empty()) item->Fail("name", "is missing");
  item->Ignore({"id", "status"});
  item->RefuseOthers();
  return call;
}

v1::ChatMessage ReadCallOutput(FieldReader* item) {
  v1::ChatMessage message;
  message.set_role("tool");
  message.set_tool_call_id(item->Text("call_id").value_or(""));
  if (message.tool_call_id().empty()) item->Fail("call_id", "is missing");
  message.set_content(ReadParts(item, "output", /*is_reasoning=*/false));
  item->Ignore({"id", "status"});
  item->RefuseOthers();
  return message;
}

// Adds the messages of items, one after the other. Reasoning waits for the message or the call that
// it led to; calls are part of the assistant's message before them.
class InputMessages {
 public:
  InputMessages(v1::ChatMessages* chat, std::vector<FieldNames::Place>* places)
      : chat_(*chat), places_(*places) {}

  void Read(FieldReader* item, const std::string& path) {
    path_ = path;
    const std::string type = item->Text("type").value_or("message");
    if (type == "reasoning") {
      const std::string text = ReadReasoningItem(item);
      absl::StrAppend(&reasoning_, reasoning_.empty() ? "" : "\n", text);
    } else if (type == "message") {
      v1::ChatMessage message;
      ReadInputMessage(item, &message);
      Add(std::move(message));
    } else if (type == "function_call") {
      const bool goes_on = reasoning_.empty() && chat_.messages_size() > 0 &&
                           chat_.messages(chat_.messages_size() - 1).role() == "assistant";
      if (!goes_on) {
        v1::ChatMessage message;
        message.set_role("assistant");
        Add(std::move(message));
      }
      *chat_.mutable_messages(chat_.messages_size() - 1)->add_tool_calls() = ReadCallItem(item);
    } else if (type == "function_call_output") {
      Add(ReadCallOutput(item));
    } else {
      item->Fail("type",
                 "must be \"message\", \"reasoning\", \"function_call\" or "
                 "\"function_call_output\": nothing else is served here yet");
    }
  }

  bool reasons() const { return !reasoning_.empty(); }

 private:
  void Add(v1::ChatMessage message) {
    if (!reasoning_.empty()) {
      v1::ChatMessage* const thought =
          message.role() == "assistant" ? &message : chat_.add_messages();
      if (thought != &message) places_.push_back({.path = path_});
      thought->set_role("assistant");
      thought->set_reasoning_content(std::exchange(reasoning_, ""));
    }
    *chat_.add_messages() = std::move(message);
    places_.push_back({.path = path_});
  }

  v1::ChatMessages& chat_;
  std::vector<FieldNames::Place>& places_;
  std::string path_;  // of the item
  std::string reasoning_;
};

}  // namespace

void ReadResponsesInput(FieldReader* fields, v1::ChatMessages* chat,
                        std::vector<FieldNames::Place>* places) {
  if (const auto instructions = fields->Text("instructions")) {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("system");
    message->set_content(*instructions);
    places->push_back({.path = "instructions", .is_text = true});
  }
  const Json* input = fields->Find("input");
  if (input != nullptr && input->is_string()) {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("user");
    message->set_content(input->get<std::string>());
    places->push_back({.path = "input", .is_text = true});
    return;
  }
  if (input == nullptr || !input->is_array() || input->empty()) {
    return fields->Fail("input", "must be a text or a list of messages");
  }
  InputMessages messages(chat, places);
  for (size_t i = 0; i < input->size(); ++i) {
    const std::string path = absl::StrCat("input[", i, "]");
    if (!(*input)[i].is_object()) return fields->Fail(path, "is not an object");
    FieldReader item((*input)[i], absl::StrCat(fields->PathOf(path), "."));
    messages.Read(&item, path);
    if (item.error().has_value()) return fields->Fail(*item.error());
  }
  if (messages.reasons()) {
    fields->Fail(absl::StrCat("input[", input->size() - 1, "]"),
                 "is reasoning without the message or the call that it led to");
  }
}

}  // namespace tutti::gateway
