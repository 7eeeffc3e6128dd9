#include "client/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::client {
namespace {

using ::testing::HasSubstr;

std::string Roles(const Conversation& conversation) {
  std::string roles;
  for (const v1::ChatMessage& message : conversation.messages().messages()) {
    roles += message.role()[0];
  }
  return roles;
}

TEST(Conversation, KeepsWhatWasAnswered) {
  Conversation chat("Be short.", "{}");
  chat.Ask("a");
  chat.Answer("A");
  chat.Ask("b");
  chat.TakeBack();
  EXPECT_EQ(Roles(chat), "sua");
  EXPECT_EQ(chat.messages().template_kwargs_json(), "{}");
  EXPECT_EQ(chat.Undo(), "a");
  EXPECT_EQ(chat.Undo(), std::nullopt);
  EXPECT_EQ(Roles(chat), "s");
}

TEST(Conversation, BeginsAnew) {
  Conversation chat("", "");
  chat.Ask("a");
  chat.Answer("A");
  chat.Reset();
  EXPECT_EQ(Roles(chat), "");
  EXPECT_EQ(chat.Undo(), std::nullopt);
  chat.SetSystem("Be long.");
  chat.Reset();
  EXPECT_EQ(Roles(chat), "s");
  chat.SetSystem("");
  EXPECT_EQ(Roles(chat), "");
}

TEST(ChatCommands, AreReadWithWhatFollows) {
  EXPECT_EQ(ParseChatCommand("/help").command, ChatCommand::kHelp);
  EXPECT_EQ(ParseChatCommand("/exit").command, ChatCommand::kExit);
  EXPECT_EQ(ParseChatCommand("/quit").command, ChatCommand::kExit);
  EXPECT_EQ(ParseChatCommand("/system").command, ChatCommand::kSystem);
  EXPECT_EQ(ParseChatCommand("/system  Be short. ").text, "Be short.");
  EXPECT_EQ(ParseChatCommand("/undo it").text, "/undo takes nothing behind it");
}

TEST(ChatCommands, ThatThereAreNotAreNamed) {
  EXPECT_EQ(ParseChatCommand("/hlep").text, "there is no command /hlep; did you mean /help?");
  EXPECT_EQ(ParseChatCommand("/frobnicate").text,
            "there is no command /frobnicate; /help shows those there are");
  EXPECT_THAT(ChatHelp(), HasSubstr("/system TEXT"));
}

}  // namespace
}  // namespace tutti::client
