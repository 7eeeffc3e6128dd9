// A flipped bit anywhere in a frame ends its link.
#include "transport/frame_checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/grpc/close_frame.h"
#include "transport/grpc/frame_codec.h"
#include "transport/grpc/frame_codec_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

// One frame of each kind, with a payload where the kind has one.
std::vector<grpc::ByteBuffer> FramesOfEveryKind() {
  std::vector<grpc::ByteBuffer> frames;
  const auto* const body = v1::Frame::descriptor()->FindOneofByName("body");
  for (int i = 0; i < body->field_count(); ++i) {
    v1::Frame frame;
    frame.set_epoch(5);
    auto* const message = frame.GetReflection()->MutableMessage(&frame, body->field(i));
    // The first numbers, texts and lists of the message get values.
    const auto* const type = message->GetDescriptor();
    for (int j = 0; j < type->field_count(); ++j) {
      const auto* const field = type->field(j);
      const auto* const reflection = message->GetReflection();
      if (field->is_repeated()) {
        if (field->message_type() != nullptr) reflection->AddMessage(message, field);
      } else if (field->cpp_type() == field->CPPTYPE_UINT64) {
        reflection->SetUInt64(message, field, 77);
      } else if (field->cpp_type() == field->CPPTYPE_INT32) {
        reflection->SetInt32(message, field, 7);
      } else if (field->cpp_type() == field->CPPTYPE_STRING) {
        reflection->SetString(message, field, "w0");
      }
    }
    frames.push_back(EncodeFrame(frame, {}));
  }
  v1::Frame result;
  v1::SampledToken* token = result.mutable_step_result()->add_sampled();
  token->set_token(17);
  token->set_logprob(-0.25f);
  frames.push_back(EncodeFrame(result, {}));
  frames.push_back(EncodeFrame(PlanFrame(100), {}));
  return frames;
}

// Before frames had checksums, 6 of 50 flipped bits gave OK with a wrong log-probability.
TEST(FrameChecksumTest, NoFlippedBitIsAcceptedInAnyKindOfFrame) {
  int64_t flips = 0;
  for (const grpc::ByteBuffer& buffer : FramesOfEveryKind()) {
    std::string bytes = Flatten(buffer);
    v1::Frame frame;
    Payload payload;
    ASSERT_TRUE(DecodeFrame(Received(bytes, 1000), &frame, &payload).ok());
    EXPECT_EQ(frame.checksum(), 0u);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit, ++flips) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(DecodeFrame(Received(bytes, 1000), &frame, &payload).ok()) << bit;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    }
  }
  EXPECT_GT(flips, 4000);
}

// The payload of an activation or an exchange is compared with the checksum in its message
// (step_sequencer_test.cc, link_collective_test.cc); here no flip may move it or change its length.
TEST(FrameChecksumTest, AFlipInAFrameWithPayloadIsFoundOrIsInThePayload) {
  const std::string rows = Pattern(64);
  std::string bytes = Flatten(EncodeFrame(ActivationFrame(), Chunked(rows, 64)));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    v1::Frame frame;
    Payload payload;
    if (DecodeFrame(Received(bytes, 1000), &frame, &payload).ok()) {
      EXPECT_EQ(frame.SerializeAsString(), ActivationFrame().SerializeAsString());
      EXPECT_EQ(payload.size(), 64);
      EXPECT_NE(Join(payload), rows);
    }
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

TEST(FrameChecksumTest, AReasonForClosingThatIsDamagedIsNotBelieved) {
  const absl::Status reason = absl::AbortedError("w1 is gone");
  std::string bytes = Flatten(EncodeCloseFrame(reason));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    v1::Frame frame;
    Payload payload;
    if (DecodeFrame(Received(bytes, 1000), &frame, &payload).ok()) {
      const auto read = ReadCloseFrame(frame, payload);
      ASSERT_TRUE(read.has_value());
      EXPECT_EQ(read->code(), absl::StatusCode::kDataLoss) << bit;
    }
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

TEST(FrameChecksumTest, MissingOrWrongIsDataLossAndSaysSo) {
  v1::Frame frame;
  Payload payload;
  for (const std::string& bytes :
       {std::string(), std::string("\x08\x05", 2), ActivationFrame().SerializeAsString()}) {
    const absl::Status status = DecodeFrame(Received(bytes, 1000), &frame, &payload);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no checksum"));
  }
  std::string wrong = Sealed(std::string("\x08\x05", 2));
  wrong[1] = 6;
  const absl::Status status = DecodeFrame(Received(wrong, 1000), &frame, &payload);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the sender wrote"));
}

}  // namespace
}  // namespace tutti::transport
