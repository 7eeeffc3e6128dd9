#include "coordinator/service/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "door/limits.h"
#include "text/chat_template.h"

namespace tutti::coordinator {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

v1::ChatMessages Conversation() {
  v1::ChatMessages chat;
  v1::ChatMessage* message = chat.add_messages();
  message->set_role("user");
  message->set_content("How warm is it in Wien?");
  message = chat.add_messages();
  message->set_role("assistant");
  message->set_reasoning_content("I should ask.");
  v1::ToolCall* const call = message->add_tool_calls();
  call->set_id("call-1");
  call->set_name("weather");
  call->set_arguments_json(R"({"unit": "C", "city": "Wien", "days": [1, 2.5], "exact": null})");
  message->add_tool_calls()->set_name("now");
  message = chat.add_messages();
  message->set_role("tool");
  message->set_content("21");
  message->set_tool_call_id("call-1");
  message->set_name("weather");
  return chat;
}

TEST(ChatMessages, AreWhatHuggingFaceTakes) {
  const auto json = ChatMessagesJson(Conversation(), "chat");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(**json, Json::parse(R"([
    {"role": "user", "content": "How warm is it in Wien?"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"id": "call-1", "type": "function", "function": {"name": "weather",
       "arguments": {"unit": "C", "city": "Wien", "days": [1, 2.5], "exact": null}}},
      {"type": "function", "function": {"name": "now", "arguments": {}}}],
     "reasoning_content": "I should ask."},
    {"role": "tool", "content": "21", "tool_call_id": "call-1", "name": "weather"}])"));
  EXPECT_EQ((*json)->at(1)["tool_calls"][0]["function"]["arguments"].begin().key(), "unit")
      << "the order is the client's";
}

// Arguments and names are the client's text wherever the template puts them: a special token
// spelled in one is ordinary text.
TEST(ChatMessages, WhatAClientWroteStaysTheClients) {
  auto chat_template = text::ChatTemplate::Parse(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
      "{{ c.function.arguments | tojson }}{% endfor %}{{ m.name }}{% endfor %}");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const auto segments =
      chat_template->Render(**ChatMessagesJson(Conversation(), "chat"), Json::object());
  ASSERT_TRUE(segments.ok()) << segments.status();
  std::string own, text;
  for (const text::Segment& segment : *segments) {
    text += segment.text;
    if (!segment.from_user) own += segment.text;
  }
  EXPECT_EQ(text,
            "<call>weather{\"unit\": \"C\", \"city\": \"Wien\", \"days\": [1, 2.5], \"exact\": "
            "null}<call>now{}weather");
  EXPECT_THAT(own, ::testing::Not(HasSubstr("Wien")));
  EXPECT_THAT(own, ::testing::Not(HasSubstr("weather")));
}

void ExpectRefused(const std::string& what, const std::function<void(v1::ChatMessages*)>& change) {
  v1::ChatMessages chat = Conversation();
  change(&chat);
  const auto json = ChatMessagesJson(chat, "chat");
  ASSERT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument) << what;
  EXPECT_THAT(std::string(json.status().message()), HasSubstr(what));
}

TEST(ChatMessages, ErrorsNameTheField) {
  ExpectRefused("chat.messages is empty", [](auto* chat) { chat->clear_messages(); });
  ExpectRefused("chat.messages[0].role must be",
                [](auto* chat) { chat->mutable_messages(0)->set_role("root"); });
  ExpectRefused("chat.messages[0].tool_calls belongs to messages with the role \"assistant\"",
                [](auto* chat) { chat->mutable_messages(0)->add_tool_calls(); });
  ExpectRefused("chat.messages[0].reasoning_content belongs",
                [](auto* chat) { chat->mutable_messages(0)->set_reasoning_content("hm"); });
  ExpectRefused("chat.messages[2].metadata belongs",
                [](auto* chat) { chat->mutable_messages(2)->set_metadata("weather"); });
  ExpectRefused("chat.messages[1].tool_call_id belongs to messages with the role \"tool\"",
                [](auto* chat) { chat->mutable_messages(1)->set_tool_call_id("call-1"); });
  ExpectRefused("chat.messages[1].tool_calls[1].name is empty",
                [](auto* chat) { chat->mutable_messages(1)->mutable_tool_calls(1)->clear_name(); });
}

// A client sends back what the model wrote.
TEST(ChatMessages, ArgumentsMayBeCutOrNoJsonAtAll) {
  const auto arguments = [](const char* written) {
    v1::ChatMessages chat = Conversation();
    chat.mutable_messages(1)->mutable_tool_calls(0)->set_arguments_json(written);
    const auto json = ChatMessagesJson(chat, "chat");
    EXPECT_TRUE(json.ok()) << json.status();
    return (**json)[1]["tool_calls"][0]["function"]["arguments"].dump();
  };
  EXPECT_EQ(arguments(R"({"title": "groceries", "body": "milk, )"),
            R"({"title":"groceries","body":"milk, "})");
  EXPECT_EQ(arguments("{"), "{}");
  EXPECT_EQ(arguments("{\"a\": nan}"), "{}");
  EXPECT_EQ(arguments("[1]"), "\"[1]\"");
  EXPECT_EQ(arguments("city=Wien"), "\"city=Wien\"");
}

TEST(ChatMessages, LimitsHoldAtTheirEdges) {
  const auto filled = [](int64_t bytes) { return std::string(static_cast<size_t>(bytes), 'x'); };
  v1::ChatMessages chat = Conversation();
  chat.mutable_messages(1)->mutable_tool_calls(0)->set_name(filled(door::kChatNameBytesMax));
  chat.mutable_messages(2)->set_name(filled(door::kChatNameBytesMax));
  while (chat.messages(1).tool_calls_size() < door::kToolCallsMax) {
    chat.mutable_messages(1)->add_tool_calls()->set_name("now");
  }
  EXPECT_TRUE(ChatMessagesJson(chat, "chat").ok());
  const std::string limit = "has 257 bytes, the limit is 256";
  ExpectRefused("chat.messages[2].name " + limit, [&](auto* c) {
    c->mutable_messages(2)->set_name(filled(door::kChatNameBytesMax + 1));
  });
  ExpectRefused("chat.messages[1].tool_calls[0].id " + limit, [&](auto* c) {
    c->mutable_messages(1)->mutable_tool_calls(0)->set_id(filled(door::kChatNameBytesMax + 1));
  });
  ExpectRefused("chat.messages[1].tool_calls has 129 entries, the limit is 128", [&](auto* c) {
    *c = chat;
    c->mutable_messages(1)->add_tool_calls()->set_name("now");
  });
  // All fields count.
  ExpectRefused("chat.messages hold", [&](auto* c) {
    c->mutable_messages(0)->set_content(filled(door::kPromptBytesMax / 2));
    c->mutable_messages(1)->set_reasoning_content(filled(door::kPromptBytesMax / 2));
  });
}

TEST(ChatMessages, TemplateArguments) {
  v1::ChatMessages chat = Conversation();
  chat.set_template_kwargs_json(R"({"enable_thinking": false})");
  EXPECT_EQ((*TemplateKwargsJson(chat, "chat"))->dump(),
            R"({"enable_thinking":false,"add_generation_prompt":true})");
  chat.set_template_kwargs_json("[1]");
  EXPECT_THAT(std::string(TemplateKwargsJson(chat, "chat").status().message()),
              HasSubstr("chat.template_kwargs_json is not a JSON object"));
}

}  // namespace
}  // namespace tutti::coordinator
