// A checkpoint whose template or tokenizer cannot be used still serves what needs neither.
#include "coordinator/service/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/request_builder.h"

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

// The demo's files, but for those whose name begins with `without`.
void LinkDemo(const TempDir& dir, const std::string& without) {
  for (const auto& entry : std::filesystem::directory_iterator(DemoModelDir())) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !name.starts_with(without)) {
      std::filesystem::create_symlink(std::filesystem::absolute(entry.path()), dir.File(name));
    }
  }
}

v1::ChatMessages Hello() {
  v1::ChatMessages chat;
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("user");
  message.set_content("hello");
  return chat;
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(ServedModelTest, ATemplateThatCannotBeCompiledRefusesChatsOnly) {
  TempDir dir;
  LinkDemo(dir, "chat_template");
  dir.Write("chat_template.jinja", "line\n{{ messages|nope }}");
  const auto model = ServedModel::Load(dir.path(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->EncodeText("12+30=", {}, "prompt").ok());
  const absl::Status refused = (*model)->EncodeChat(Hello(), "prompt.chat").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(refused), HasSubstr("line 2: no filter named 'nope'"));
  EXPECT_THAT(MessageOf(refused), HasSubstr("send the prompt as text or token_ids"));
}

TEST(ServedModelTest, AnotherTemplateMayBeGiven) {
  TempDir dir;
  LinkDemo(dir, "chat_template");
  dir.Write("chat_template.jinja", "{{ messages|nope }}");
  dir.Write("mine.jinja", "{{ messages[0].content }}");
  const auto model = ServedModel::Load(dir.path(), "demo", 0, dir.File("mine.jinja"));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto ids = (*model)->EncodeChat(Hello(), "chat");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, *(*model)->tokenizer->Encode("hello"));
  for (const std::string bad : {"chat_template.jinja", "none.jinja"}) {
    const auto refused = ServedModel::Load(dir.path(), "demo", 0, dir.File(bad));
    EXPECT_THAT(MessageOf(refused.status()), HasSubstr("--chat-template")) << bad;
  }
}

TEST(ServedModelTest, HasNamesAsHubsHaveThem) {
  TempDir dir;
  LinkDemo(dir, "none");
  const auto model = ServedModel::Load(dir.path(), "Qwen/Qwen3-0.6B, qwen3:0.6b,demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->name, "Qwen/Qwen3-0.6B");
  EXPECT_THAT((*model)->other_names, testing::ElementsAre("qwen3:0.6b", "demo"));
  for (const char* name : {"", "Qwen/Qwen3-0.6B", "qwen3:0.6b", "demo"}) {
    EXPECT_TRUE(CheckModelName(name, **model).ok()) << name;
  }
  EXPECT_THAT(MessageOf(CheckModelName("other", **model)),
              HasSubstr("'Qwen/Qwen3-0.6B', 'qwen3:0.6b', 'demo'"));
  for (const char* bad : {"a b", "a,\"b\"", "a\nb"}) {
    EXPECT_THAT(MessageOf(ServedModel::Load(dir.path(), bad, 0).status()),
                HasSubstr("--served-model-name"))
        << bad;
  }
}

TEST(ServedModelTest, WithoutATokenizerIdsAreServed) {
  TempDir dir;
  LinkDemo(dir, "tokenizer");
  const auto model = ServedModel::Load(dir.path(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const absl::Status& status : {(*model)->EncodeText("a", {}, "prompt").status(),
                                     (*model)->EncodeChat(Hello(), "prompt").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(status), HasSubstr("no tokenizer files; send the prompt as token_ids"));
  }
}

// As a client that renders its prompts itself sends them.
TEST(ServedModelTest, ARenderedPromptHasTheIdsOfItsConversation) {
  const auto model = ServedModel::Load(DemoModelDir(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto chat = (*model)->EncodeChat(Hello(), "chat");
  ASSERT_TRUE(chat.ok()) << chat.status();
  std::string rendered;
  for (const TokenId id : *chat) rendered += std::string(*(*model)->tokenizer->TokenText(id));
  v1::TextReading reading;
  reading.set_omit_special_tokens(true);
  EXPECT_EQ(*(*model)->EncodeText(rendered, reading, "text"), *chat);
  reading.set_split_special_tokens(true);
  EXPECT_EQ(*(*model)->EncodeText(rendered, reading, "text"),
            *(*model)->tokenizer->Encode(rendered));
  EXPECT_NE(*(*model)->EncodeText(rendered, reading, "text"), *chat);
}

TEST(ServedModelTest, ATokenWithoutARowIsRefusedAndTheOthersAreServed) {
  TempDir dir;
  LinkDemo(dir, "tokenizer_config");
  const auto whole = ServedModel::Load(DemoModelDir(), "demo", 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const int64_t rows = (*whole)->config.vocab_size;
  dir.Write("tokenizer_config.json",
            absl::StrCat(R"({"added_tokens_decoder": {")", rows, R"(": {"content": "<extra>"}}})"));
  const auto model = ServedModel::Load(dir.path(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*(*model)->EncodeText("hello", {}, "text"), *(*whole)->EncodeText("hello", {}, "text"));
  const absl::Status refused = (*model)->EncodeText("a <extra>", {}, "text").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(refused),
              HasSubstr(absl::StrCat("text has the token \"<extra>\" (", rows)));
}

class ContinuedMessageTest : public ::testing::Test {
 protected:
  // The prompt of two messages by this template, the second of which goes on.
  absl::StatusOr<std::string> Prompt(const std::string& source, const std::string& content,
                                     bool opens_another = false) {
    TempDir dir;
    LinkDemo(dir, "chat_template");
    dir.Write("mine.jinja", source);
    const auto model = ServedModel::Load(dir.path(), "demo", 0, dir.File("mine.jinja"));
    CHECK(model.ok()) << model.status().ToString();
    v1::ChatMessages chat = Hello();
    v1::ChatMessage& last = *chat.add_messages();
    last.set_role("assistant");
    last.set_content(content);
    chat.set_continue_final_message(true);
    chat.set_omit_generation_prompt(!opens_another);
    TUTTI_ASSIGN_OR_RETURN(const auto ids, (*model)->EncodeChat(chat, "chat"));
    std::string text;
    for (const TokenId id : ids) text += std::string(*(*model)->tokenizer->TokenText(id));
    return text;
  }
  void ExpectRefused(const absl::StatusOr<std::string>& prompt, const std::string& words) {
    EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(prompt.status()), HasSubstr("chat.continue_final_message"));
    EXPECT_THAT(MessageOf(prompt.status()), HasSubstr(words));
  }
};

TEST_F(ContinuedMessageTest, ThePromptEndsWithTheLastMessage) {
  const std::string plain =
      "{% for m in messages %}[{{ m.role }}] {{ m.content }} end\n{% endfor %}";
  const std::string trims =
      "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }} end\n{% endfor %}";
  EXPECT_EQ(*Prompt(plain, "so the end"), "[user] hello end\n[assistant] so the end");
  EXPECT_EQ(*Prompt(plain, " so, "), "[user] hello end\n[assistant]  so, ");
  EXPECT_EQ(*Prompt(trims, " so, "), "[user] hello end\n[assistant] so,");
  EXPECT_EQ(*Prompt(plain, ""), "[user] hello end\n[assistant] ");
  EXPECT_EQ(*Prompt(plain, "CONTINUE_FINAL_MESSAGE_TAG x"),
            "[user] hello end\n[assistant] CONTINUE_FINAL_MESSAGE_TAG x");
}

TEST_F(ContinuedMessageTest, IsRefusedWhereTheTemplateDoesNotKeepIt) {
  ExpectRefused(Prompt("{{ messages[0].content }}", "answer"), "leaves out or changes");
  ExpectRefused(Prompt("{{ messages[1].content | upper }}", "answer"), "leaves out or changes");
  ExpectRefused(Prompt("{{ messages[1].content.split('</think>')[-1] }}", "why</think>answer"),
                "leaves out or changes");
  ExpectRefused(Prompt("{{ messages[1].content }}", "answer", /*opens_another=*/true),
                "needs chat.omit_generation_prompt");
}

}  // namespace
}  // namespace tutti::coordinator
