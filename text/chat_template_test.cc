#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "text/limits.h"
#include "text/template_json.h"

namespace tutti::text {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

ChatTemplate Parse(std::string_view source) {
  auto parsed = ChatTemplate::Parse(source);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *std::move(parsed);
}

std::string Joined(const absl::StatusOr<std::vector<Segment>>& segments) {
  if (!segments.ok()) return std::string(segments.status().message());
  std::string text;
  for (const Segment& segment : *segments) text += segment.text;
  return text;
}

const ordered_json kHello = {{{"role", "user"}, {"content", "hello"}}};
const ordered_json kNothing = ordered_json::object();

TEST(ChatTemplateTest, SegmentsTellWhoWroteWhat) {
  const ChatTemplate chat = Parse(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% "
      "endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  auto segments = chat.Render(kHello, {{"add_generation_prompt", true}});
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_THAT(*segments, ElementsAre(Segment{"<|im_start|>", false}, Segment{"user", true},
                                     Segment{"\n", false}, Segment{"hello", true},
                                     Segment{"<|im_end|>\n<|im_start|>assistant\n", false}));
}

TEST(ChatTemplateTest, StandardVariablesAreDefined) {
  const ChatTemplate chat = Parse(
      "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ enable_thinking is "
      "defined }}"
      "{{ bos_token is defined }}");
  EXPECT_EQ(Joined(chat.Render(kHello, kNothing)), "TrueTrueFalseFalseFalse");
  EXPECT_EQ(Joined(chat.Render(kHello, nullptr)), "TrueTrueFalseFalseFalse");
  EXPECT_EQ(Joined(chat.Render(kHello, {{"tools", {1}}, {"enable_thinking", false}})),
            "FalseTrueFalseTrueFalse");
}

TEST(ChatTemplateTest, VariablesOfTheModelAreTheTemplatesOwn) {
  ChatTemplate chat = Parse("{{ bos_token }}{{ x }}");
  chat.SetVariable("bos_token", "<s>");
  EXPECT_THAT(*chat.Render(kHello, {{"x", "y"}}),
              ElementsAre(Segment{"<s>", false}, Segment{"y", true}));
  // A request may replace them; then they are the user's.
  EXPECT_THAT(*chat.Render(kHello, {{"bos_token", "<t>"}}), ElementsAre(Segment{"<t>", true}));
}

TEST(ChatTemplateTest, AnEmptyPromptHasNoSegments) {
  EXPECT_THAT(*Parse("").Render(kHello, kNothing), ElementsAre());
  EXPECT_THAT(*Parse("{{ messages|length }}").Render(ordered_json::array(), kNothing),
              ElementsAre(Segment{"0", false}));
}

// As Python writes them: JSON of a request is read without rounding.
TEST(ChatTemplateTest, IntegersOfTheRequestKeepTheirDigits) {
  const TemplateJson kwargs = ParseTemplateJson(
      R"({"a": 18446744073709551615, "b": [-123456789012345678901234567890], "c": 1e3})");
  const auto prompt = Parse("{{ a }} {{ b }} {{ b|tojson }} {{ c }}").Render(kHello, *kwargs);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  std::string text;
  for (const Segment& segment : *prompt) text += segment.text;
  EXPECT_EQ(text,
            "18446744073709551615 [-123456789012345678901234567890] "
            "[-123456789012345678901234567890] 1000.0");
  for (const std::string& bad : std::vector<std::string>{"{", "1 2", "[1,]", std::string("1\0", 2),
                                                         std::string(kTextJsonDepthMax + 1, '[')}) {
    EXPECT_TRUE(ParseTemplateJson(bad)->is_discarded()) << bad;
  }
}

// Each looked for among those before it, these would take minutes of a request.
TEST(ChatTemplateTest, ObjectsOfTheRequestMayHaveVeryManyKeys) {
  constexpr int kKeys = 300'000;
  std::string json = "{";
  for (int i = 0; i < kKeys; ++i) absl::StrAppend(&json, "\"k", i, "\": 1, ");
  json += R"("k7": 2, "k299999": {"a": 1, "b": 2, "a": 3}})";
  const TemplateJson parsed = ParseTemplateJson(json);
  const ordered_json& object = *parsed;
  ASSERT_EQ(object.size(), size_t{kKeys});
  EXPECT_EQ(std::next(object.begin(), 7).key(), "k7") << "it keeps its place";
  EXPECT_EQ(std::next(object.begin(), 7).value(), 2);
  EXPECT_EQ(object.back().dump(), R"({"a":3,"b":2})");
  const auto prompt = Parse("{{ o|length }}").Render(kHello, ordered_json::object({{"o", object}}));
  ASSERT_TRUE(prompt.ok()) << prompt.status();
}

TEST(ChatTemplateTest, BadValuesAreRefusedWithTheirPath) {
  const ChatTemplate chat = Parse("{{ messages }}");
  const auto message = [&](const ordered_json& messages, const ordered_json& kwargs) {
    const auto result = chat.Render(messages, kwargs);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  EXPECT_THAT(message(ordered_json::object(), kNothing), HasSubstr("messages: not a list"));
  EXPECT_THAT(message(kHello, {1}), HasSubstr("not an object"));
  EXPECT_THAT(message(kHello, {{"messages", 1}}), HasSubstr("messages"));
  EXPECT_THAT(message({{{"role", "user"}, {"content", "a\xFF"}}}, kNothing),
              HasSubstr("messages[0].content: not valid UTF-8 at byte 1"));
  EXPECT_THAT(message(kHello, {{"tools", {{{"\xFF", 1}}}}}),
              HasSubstr("tools[0]: not valid UTF-8"));
  ordered_json deep = 1;
  for (int i = 0; i < kTextJsonDepthMax + 1; ++i) deep = ordered_json::array({deep});
  EXPECT_THAT(message(kHello, {{"tools", deep}}), HasSubstr("nests deeper"));
}

TEST(ChatTemplateTest, WhatTheTemplateRaisesIsInvalidArgument) {
  const ChatTemplate chat =
      Parse("{% if messages|length > 1 %}{{ raise_exception('One message only!') }}{% endif %}");
  EXPECT_TRUE(chat.Render(kHello, kNothing).ok());
  const auto status = chat.Render({kHello[0], kHello[0]}, kNothing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "One message only!");
}

TEST(ChatTemplateTest, ThreadsShareOne) {
  const ChatTemplate chat =
      Parse("{% for m in messages %}{% for c in m.content %}{{ c|upper }}{% endfor %}{% endfor %}");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        EXPECT_EQ(Joined(chat.Render(kHello, kNothing)), "HELLO");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- Files ---

std::string LoadAndRender(const TempDir& dir, const ordered_json& kwargs = kNothing) {
  const auto chat = LoadChatTemplate(dir.path());
  return chat.ok() ? Joined(chat->Render(kHello, kwargs)) : std::string(chat.status().message());
}

TEST(LoadChatTemplateTest, FromTheConfigOrItsOwnFile) {
  TempDir dir;
  EXPECT_EQ(LoadChatTemplate(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write(
      "tokenizer_config.json",
      json{{"chat_template", "config {{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"},
           {"bos_token", "<s>"},
           {"eos_token", {{"content", "</s>"}}},
           {"pad_token", nullptr}}
          .dump());
  EXPECT_EQ(LoadAndRender(dir), "config <s></s>False");
  dir.Write("chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(LoadAndRender(dir), "file <s>");
}

TEST(LoadChatTemplateTest, OfSeveralTheOneForToolsWhereThereAreTools) {
  TempDir dir;
  dir.Write("tokenizer_config.json",
            json{{"chat_template",
                  {{{"name", "default"}, {"template", "plain{{ bos_token }}"}},
                   {{"name", "tool_use"}, {"template", "tools{{ bos_token }}"}},
                   {{"name", "rag"}, {"template", "{% unknown %}"}}}},
                 {"bos_token", "<s>"}}
                .dump());
  EXPECT_EQ(LoadAndRender(dir), "plain<s>");
  EXPECT_EQ(LoadAndRender(dir, {{"tools", {1}}}), "tools<s>");
  EXPECT_EQ(LoadAndRender(dir, {{"tools", nullptr}}), "plain<s>");
}

TEST(LoadChatTemplateTest, AFileOfItsOwnForTools) {
  TempDir dir;
  dir.Write("tokenizer_config.json", json{{"bos_token", "<s>"}}.dump());
  dir.Write("chat_template.jinja", "plain{{ bos_token }}");
  std::filesystem::create_directory(dir.path() + "/additional_chat_templates");
  dir.Write("additional_chat_templates/tool_use.jinja", "tools{{ bos_token }}");
  EXPECT_EQ(LoadAndRender(dir), "plain<s>");
  EXPECT_EQ(LoadAndRender(dir, {{"tools", {1}}}), "tools<s>");
  dir.Write("additional_chat_templates/tool_use.jinja", "{% if %}");
  EXPECT_THAT(LoadAndRender(dir), HasSubstr("tool_use.jinja: line 1"));
}

TEST(LoadChatTemplateTest, AGivenFileComesFirst) {
  const TempDir dir;
  dir.Write("tokenizer_config.json", R"({"chat_template": "{{ x|nope }}", "bos_token": "<s>"})");
  dir.Write("mine.jinja", "{{ bos_token }}mine");
  EXPECT_FALSE(LoadChatTemplate(dir.path()).ok());
  const auto chat = LoadChatTemplate(dir.path(), dir.File("mine.jinja"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto prompt = chat->Render(nlohmann::ordered_json::array(), nullptr);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ((*prompt)[0].text, "<s>mine");
  EXPECT_FALSE(LoadChatTemplate(dir.path(), dir.File("none.jinja")).ok());
}

TEST(LoadChatTemplateTest, RefusesNamingTheFile) {
  TempDir dir;
  const auto message = [&](const std::string& config) {
    dir.Write("tokenizer_config.json", config);
    return LoadAndRender(dir);
  };
  EXPECT_THAT(message("{"), HasSubstr("tokenizer_config.json: not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("tokenizer_config.json: not an object"));
  EXPECT_THAT(message(std::string(1000, '[')), HasSubstr("tokenizer_config.json: nests deeper"));
  EXPECT_THAT(message("{}"), HasSubstr("no chat template"));
  EXPECT_THAT(message(R"({"chat_template": 5})"), HasSubstr("chat_template: neither"));
  EXPECT_THAT(message(R"({"chat_template": [{"name": "default"}]})"),
              HasSubstr("not {name, template}"));
  EXPECT_THAT(message(R"({"chat_template": [{"name": "x", "template": ""}]})"),
              HasSubstr("default"));
  EXPECT_THAT(message(R"({"chat_template": "\n{{ x|nope }}"})"),
              HasSubstr("tokenizer_config.json: chat_template: line 2: no filter named 'nope'"));
  EXPECT_THAT(message("{\"pad\": \"" + std::string(kTextConfigFileBytesMax, 'a') + "\"}"),
              HasSubstr("at most"));
  dir.Write("chat_template.jinja", "{% if %}");
  EXPECT_THAT(message("{}"), HasSubstr("chat_template.jinja: line 1"));
}

}  // namespace
}  // namespace tutti::text
