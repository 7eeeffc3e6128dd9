// A checkpoint whose template or tokenizer cannot be used still serves what needs neither.
#include "coordinator/service/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files_testing.h"
#include "coordinator/model_testing.h"

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

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ServedModelTest, ATemplateThatCannotBeCompiledRefusesChatsOnly) {
  TempDir dir;
  LinkDemo(dir, "chat_template");
  dir.Write("chat_template.jinja", "line\n{{ messages|nope }}");
  const auto model = ServedModel::Load(dir.path(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->EncodeText("12+30=", "prompt").ok());
  const absl::Status refused = (*model)->EncodeChat(Hello(), "prompt.chat").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr("line 2: no filter named 'nope'"));
  EXPECT_THAT(Message(refused), HasSubstr("send the prompt as text or token_ids"));
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
    EXPECT_THAT(Message(refused.status()), HasSubstr("--chat-template")) << bad;
  }
}

TEST(ServedModelTest, WithoutATokenizerIdsAreServed) {
  TempDir dir;
  LinkDemo(dir, "tokenizer");
  const auto model = ServedModel::Load(dir.path(), "demo", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const absl::Status& status : {(*model)->EncodeText("a", "prompt").status(),
                                     (*model)->EncodeChat(Hello(), "prompt").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(status), HasSubstr("no tokenizer files; send the prompt as token_ids"));
  }
}

}  // namespace
}  // namespace tutti::coordinator
