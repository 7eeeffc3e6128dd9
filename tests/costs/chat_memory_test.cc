// A chat that meets the end of memory anywhere: its request ends, and the process goes on.
//
// A program of its own: it has its own operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "coordinator/service/chat_messages.h"
#include "nlohmann/json.hpp"
#include "tests/costs/own_memory.h"
#include "text/chat_template.h"

namespace tutti::tests {
namespace {

using coordinator::ChatMessagesJson;
using coordinator::TemplateKwargsJson;

// With parts of all kinds, and objects and lists that grow while they have large parts.
v1::ChatMessages Chat() {
  v1::ChatMessages chat;
  chat.set_template_kwargs_json(
      R"({"tools": [{"a": [[1, "a text that is allocated by itself"], {"b": {"c": [null]}}], "d": 1,
          "e": {"f": [2, 3]}, "g": 4, "h": [[]], "i": 123456789012345678901234567890}, {"a": {}}],
          "x": 1, "y": 2, "add_generation_prompt": [[1], [2]]})");
  for (int i = 0; i < 3; ++i) {
    v1::ChatMessage* const message = chat.add_messages();
    message->set_role("assistant");
    message->set_content("a content that is allocated by itself");
    message->set_reasoning_content("and so is this, whatever it says");
    for (const char* arguments : {R"({"a": [{"b": [1, [2]]}], "c": {"d": [3]}})",
                                  R"({"a": [1, {"b": ["cut off)", "[1, [2]]"}) {
      v1::ToolCall* const call = message->add_tool_calls();
      call->set_name("f");
      call->set_arguments_json(arguments);
    }
  }
  return chat;
}

// Runs it with one more allocation each time, until it has all that it needs.
template <typename Read>
int64_t ReadWithMoreAndMore(const Read& read) {
  for (int64_t most = 0;; ++most) {
    try {
      OwnMemory::Allow(most);
      auto json = read();
      OwnMemory::Allow(0);  // none for its end
      const bool ok = json.ok();
      { const auto ended = std::move(json); }
      OwnMemory::Allow(INT64_MAX);
      EXPECT_TRUE(ok);
      return most;
    } catch (const std::bad_alloc&) {
      OwnMemory::Allow(INT64_MAX);
    }
  }
}

TEST(ChatMemory, MessagesAndVariablesEndWhereThereIsNone) {
  const v1::ChatMessages chat = Chat();
  EXPECT_GT(ReadWithMoreAndMore([&] { return ChatMessagesJson(chat, "chat"); }), 100);
  EXPECT_GT(ReadWithMoreAndMore([&] { return TemplateKwargsJson(chat, "chat"); }), 30);
}

TEST(ChatMemory, ATemplateEndsWhereThereIsNone) {
  const v1::ChatMessages chat = Chat();
  const auto messages = ChatMessagesJson(chat, "chat");
  const auto kwargs = TemplateKwargsJson(chat, "chat");
  const auto written = text::ChatTemplate::Parse(
      "{% for m in messages %}{{ m.role }}{{ m.tool_calls | tojson }}{{ m.content }}{% endfor %}"
      "{% set n = namespace(a=1) %}{% for t in tools %}{% set n.b = t %}{{ t | tojson }}{{ n.b.a }}"
      "{% endfor %}{{ '{\"a\": [1, {\"b\": [2]}]}' | fromjson }}");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_GT(ReadWithMoreAndMore([&] { return written->Render(**messages, **kwargs); }), 100);
}

}  // namespace
}  // namespace tutti::tests
