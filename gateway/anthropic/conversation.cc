// `system` and `messages` of a request: content in blocks.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/field_reader.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

void AddLine(const std::string& text, std::string* to) {
  absl::StrAppend(to, to->empty() ? "" : "\n", text);
}

// The text of a block that is one; `type` has been read.
std::string ReadTextBlock(FieldReader* block, const std::string& type) {
  if (type != "text") {
    block->Fail("type", "must be \"text\" here: this model reads nothing else");
    return "";
  }
  const auto text = block->Text("text");
  if (!text.has_value()) block->Fail("text", "is missing");
  block->Ignore({"cache_control", "citations"});
  block->RefuseOthers();
  return text.value_or("");
}

// A text, or a list of blocks of text, below `fields`.
std::string ReadTexts(FieldReader* fields, std::string_view name) {
  const Json* value = fields->Find(name);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) {
    fields->Fail(name, "is neither a text nor a list of blocks");
    return "";
  }
  std::string text;
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string path = absl::StrCat(std::string(name), "[", i, "]");
    if (!(*value)[i].is_object()) {
      fields->Fail(path, "is not an object");
      return "";
    }
    FieldReader block((*value)[i], absl::StrCat(fields->PathOf(path), "."));
    AddLine(ReadTextBlock(&block, block.Text("type").value_or("")), &text);
    if (block.error().has_value()) fields->Fail(*block.error());
  }
  return text;
}

// The messages of the service that one of the client's becomes.
class MessageReader {
 public:
  MessageReader(v1::ChatMessages* chat, FieldNames* names,
                std::map<std::string, std::string>* tools)
      : chat_(*chat), names_(*names), tools_(*tools) {}

  void Read(FieldReader* message, const std::string& path, std::string_view written) {
    path_ = path;
    role_ = message->Text("role").value_or("");
    if (role_ != "user" && role_ != "assistant" && role_ != "system") {
      return message->Fail("role", "must be \"user\" or \"assistant\"");
    }
    const Json* content = message->Find("content");
    if (content == nullptr || (!content->is_string() && !content->is_array())) {
      return message->Fail("content", "must be a text or a list of blocks");
    }
    message->RefuseOthers();
    if (content->is_string()) {
      Current()->set_content(content->get<std::string>());
      return;
    }
    const std::vector<std::string_view> blocks =
        ItemsAsWritten(MemberAsWritten(written, "content"));
    for (size_t i = 0; i < content->size(); ++i) {
      const std::string at = absl::StrCat("content[", i, "]");
      const Json& value = (*content)[i];
      if (!value.is_object()) return message->Fail(at, "is not an object");
      FieldReader block(value, absl::StrCat(message->PathOf(at), "."));
      ReadBlock(&block, ItemAt(blocks, i));
      if (block.error().has_value()) return message->Fail(*block.error());
    }
    if (!has_results_ || current_ != nullptr) Current();
  }

 private:
  // The message that its text goes to.
  v1::ChatMessage* Current() {
    if (current_ != nullptr) return current_;
    current_ = Add(role_);
    return current_;
  }
  v1::ChatMessage* Add(const std::string& role) {
    v1::ChatMessage* const message = chat_.add_messages();
    message->set_role(role);
    names_.places.push_back({.path = path_});
    return message;
  }

  void ReadBlock(FieldReader* block, std::string_view written) {
    const std::string type = block->Text("type").value_or("");
    if (type == "tool_result" && role_ == "user") return ReadResult(block);
    if (type == "tool_use" && role_ == "assistant") return ReadCall(block, written);
    if (type == "thinking" && role_ == "assistant") {
      AddLine(block->Text("thinking").value_or(""), Current()->mutable_reasoning_content());
      block->Ignore({"signature"});
      return block->RefuseOthers();
    }
    // What others have encrypted nobody here can read.
    if (type == "redacted_thinking" && role_ == "assistant") return;
    const std::string text = ReadTextBlock(block, type);
    if (!block->error().has_value()) AddLine(text, Current()->mutable_content());
  }

  void ReadCall(FieldReader* block, std::string_view written) {
    v1::ToolCall* const call = Current()->add_tool_calls();
    call->set_id(block->Text("id").value_or(""));
    call->set_name(block->Text("name").value_or(""));
    if (call->name().empty()) return block->Fail("name", "is missing");
    const Json* input = block->Find("input");
    if (input != nullptr && !input->is_object()) return block->Fail("input", "is not an object");
    call->set_arguments_json(input == nullptr ? "{}"
                                              : std::string(MemberAsWritten(written, "input")));
    tools_[call->id()] = call->name();
    block->Ignore({"cache_control", "caller", "toolset_name"});
    block->RefuseOthers();
  }

  void ReadResult(FieldReader* block) {
    has_results_ = true;
    current_ = nullptr;
    v1::ChatMessage* const result = Add("tool");
    result->set_tool_call_id(block->Text("tool_use_id").value_or(""));
    result->set_content(ReadTexts(block, "content"));
    const auto named = tools_.find(result->tool_call_id());
    if (named != tools_.end()) result->set_name(named->second);
    // The text says it.
    block->Ignore({"is_error", "cache_control", "toolset_name"});
    block->RefuseOthers();
  }

  v1::ChatMessages& chat_;
  FieldNames& names_;
  std::map<std::string, std::string>& tools_;  // names of the functions that were called, by id
  std::string path_, role_;
  v1::ChatMessage* current_ = nullptr;
  bool has_results_ = false;
};

}  // namespace

void ReadConversation(FieldReader* fields, std::string_view written, v1::ChatMessages* chat,
                      FieldNames* names) {
  if (const std::string system = ReadTexts(fields, "system"); !system.empty()) {
    v1::ChatMessage* const message = chat->add_messages();
    message->set_role("system");
    message->set_content(system);
    names->places.push_back({.path = "system", .is_text = true});
  }
  const Json* messages = fields->Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields->Fail("messages", "must be a list of messages");
  }
  std::map<std::string, std::string> tools;
  const std::vector<std::string_view> items = ItemsAsWritten(MemberAsWritten(written, "messages"));
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string path = absl::StrCat("messages[", i, "]");
    if (!(*messages)[i].is_object()) return fields->Fail(path, "is not an object");
    FieldReader message((*messages)[i], absl::StrCat(path, "."));
    MessageReader(chat, names, &tools).Read(&message, path, ItemAt(items, i));
    if (message.error().has_value()) return fields->Fail(*message.error());
  }
  // An assistant's message at the end is the beginning of the answer.
  const v1::ChatMessage& last = chat->messages(chat->messages_size() - 1);
  const bool goes_on = last.role() == "assistant" && last.tool_calls().empty();
  chat->set_continue_final_message(goes_on);
  chat->set_omit_generation_prompt(goes_on);
}

}  // namespace tutti::gateway
