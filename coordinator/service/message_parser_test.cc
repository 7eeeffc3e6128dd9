#include "coordinator/service/message_parser.h"

#include <gtest/gtest.h>

#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {
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

TEST(MessageParserTest, SaysWhenItIsNoMessageAtAll) {
  v1::GenerateRequest message;
  message.set_text("hello");
  std::string bytes = message.SerializeAsString();
  bytes.pop_back();
  EXPECT_EQ(Parse(bytes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse(bytes).message(), "the request is not a tutti.v1.GenerateRequest message");
  EXPECT_FALSE(Parse(std::string(100, '\xff')).ok());
}

}  // namespace
}  // namespace tutti::coordinator
