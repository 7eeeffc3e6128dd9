#include "door/grpc/message_parser.h"

#include <gtest/gtest.h>

#include "door/limits.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::door {
namespace {

absl::Status Parse(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  v1::GenerateRequest message;
  return ParseMessage(grpc::ByteBuffer(&slice, 1), &message);
}

TEST(MessageParserTest, TakesWhatIsWellFormed) {
  v1::GenerateRequest message;
  message.set_text("né");
  EXPECT_TRUE(Parse(message.SerializeAsString()).ok());
  EXPECT_TRUE(Parse("").ok());
}

TEST(MessageParserTest, NamesTheStringThatIsNotUtf8) {
  v1::GenerateRequest message;
  message.mutable_chat()->add_messages()->set_content("fine");
  message.mutable_chat()->add_messages()->set_content("ab\xff");
  EXPECT_EQ(Parse(message.SerializeAsString()).message(),
            "chat.messages[1].content: invalid UTF-8 at byte 2");
  message.mutable_sampling()->add_stop("\xed\xa0\x80");  // half a surrogate pair
  message.set_text("ok");
  EXPECT_EQ(Parse(message.SerializeAsString()).message(),
            "sampling.stop[0]: invalid UTF-8 at byte 0");
}

// Its file imports others.
TEST(MessageParserTest, NamesTheStringOfAnyMessage) {
  v1::LookupPrefixRequest message;
  message.mutable_chat()->add_messages()->set_content("\xff");
  const grpc::Slice slice(message.SerializeAsString());
  EXPECT_EQ(ParseMessage(grpc::ByteBuffer(&slice, 1), &message).message(),
            "chat.messages[0].content: invalid UTF-8 at byte 0");
}

TEST(MessageParserTest, SaysWhenItIsNoMessageAtAll) {
  v1::GenerateRequest message;
  message.set_text("hello");
  std::string bytes = message.SerializeAsString();
  bytes.pop_back();
  EXPECT_EQ(Parse(bytes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse(bytes).message(), "the request is not a tutti.v1.GenerateRequest message");
  EXPECT_FALSE(Parse(std::string(100, '\xff')).ok());
}

// Two bytes on the wire are some hundred in memory.
TEST(MessageParserTest, CountsFieldsBeforeItBuildsThem) {
  const auto of_empty_messages = [](int64_t messages) {
    std::string chat;
    for (int64_t i = 0; i < messages; ++i) chat.append("\x0a\x00", 2);  // messages = 1, empty
    std::string bytes = "\x2a";                                         // chat = 5
    for (size_t left = chat.size();; left >>= 7) {
      bytes.push_back(static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
      if (left <= 0x7f) break;
    }
    return bytes + chat;
  };
  EXPECT_TRUE(Parse(of_empty_messages(kRequestFieldsMax - 1)).ok());
  for (const int64_t messages : {kRequestFieldsMax, kRequestBytesMax / 2 - 3}) {
    const absl::Status refused = Parse(of_empty_messages(messages));
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.message().find("the request has more than 65536 fields"), 0u) << refused;
  }
  // Nor behind a field that protobuf would skip (an empty group).
  EXPECT_FALSE(Parse("\x7b\x7c" + of_empty_messages(kRequestFieldsMax)).ok());
}

TEST(MessageParserTest, TheFullestHonestRequestIsTaken) {
  v1::GenerateRequest message;
  for (int64_t i = 0; i < kChatMessagesMax; ++i) {
    v1::ChatMessage& turn = *message.mutable_chat()->add_messages();
    turn.set_role("assistant");
    turn.set_content("x");
    turn.set_name("x");
    turn.set_reasoning_content("x");
    turn.set_metadata("x");
    turn.set_tool_call_id("x");
    v1::ToolCall& call = *turn.add_tool_calls();
    call.set_id("x");
    call.set_name("x");
    call.set_arguments_json("{}");
  }
  for (int32_t i = 0; i < kLogitBiasMax; ++i)
    (*message.mutable_sampling()->mutable_logit_bias())[i] = 1;
  for (int32_t i = 0; i < kStopTokenIdsMax; ++i) message.mutable_sampling()->add_stop_token_ids(i);
  EXPECT_TRUE(Parse(message.SerializeAsString()).ok());
  message.clear_chat();
  for (int32_t i = 0; i < 131072; ++i) message.mutable_token_ids()->add_ids(i);
  EXPECT_TRUE(Parse(message.SerializeAsString()).ok());
}

}  // namespace
}  // namespace tutti::door
