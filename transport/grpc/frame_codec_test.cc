#include "transport/grpc/frame_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "transport/frame_rules.h"
#include "transport/grpc/frame_codec_testing.h"
#include "transport/grpc/frame_scan.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

std::vector<size_t> PayloadSizes() {
  const auto inline_max = static_cast<size_t>(kInlinePayloadBytesMax);
  return {0,
          1,
          22,
          23,
          24,
          127,
          128,
          inline_max - 1,
          inline_max,
          inline_max + 1,
          16383,
          16384,
          static_cast<size_t>(kPayloadChunkBytes),
          static_cast<size_t>(kPayloadBytesMax)};
}

TEST(FrameCodecTest, AnyProtobufParserReadsTheSameFrame) {
  for (const size_t size : PayloadSizes()) {
    const std::string bytes = Pattern(size);
    for (const v1::Frame& frame : {ActivationFrame(), v1::Frame(), PlanFrame(1000)}) {
      const Payload payload = Chunked(bytes, 100000);
      ASSERT_TRUE(CheckFrame(frame, payload).ok());
      v1::Frame whole = frame;
      whole.set_payload(bytes);
      const std::string encoded = Flatten(EncodeFrame(frame, payload));
      EXPECT_EQ(EncodedFrameBytes(frame, payload.size()), static_cast<int64_t>(encoded.size()));
      v1::Frame parsed;
      ASSERT_TRUE(parsed.ParseFromString(encoded));
      EXPECT_TRUE(encoded == Sealed(whole.SerializeAsString())) << size;
      parsed.clear_checksum();
      EXPECT_TRUE(parsed.SerializeAsString() == whole.SerializeAsString()) << size;
    }
  }
}

TEST(FrameCodecTest, RoundTripsHoweverTheNetworkCutsIt) {
  for (const size_t size : {0u, 1u, 23u, 24u, 5000u}) {
    v1::Frame whole = ActivationFrame();
    whole.set_payload(Pattern(size));
    const std::string encoded = Sealed(whole.SerializeAsString());
    for (const size_t piece : {1u, 2u, 3u, 7u, 23u, 24u, 1000u, 100000u}) {
      v1::Frame frame;
      Payload payload;
      ASSERT_TRUE(DecodeFrame(Received(encoded, piece), &frame, &payload).ok()) << piece;
      EXPECT_EQ(frame.SerializeAsString(), ActivationFrame().SerializeAsString());
      EXPECT_EQ(Join(payload), whole.payload());
      EXPECT_EQ(payload.owner == nullptr, size == 0);
    }
  }
}

TEST(FrameCodecTest, LargePayloadIsReferredToAndItsOwnerReleasedWithTheBuffer) {
  const std::string bytes = Pattern(100000);
  Payload payload = Chunked(bytes, 30000);
  const std::weak_ptr<const void> owner = payload.owner;
  grpc::ByteBuffer buffer = EncodeFrame(ActivationFrame(), payload);
  payload = {};
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 5u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), bytes.data());
  EXPECT_EQ(static_cast<const void*>(slices[4].begin()), bytes.data() + 90000);
  EXPECT_FALSE(owner.expired());
  slices.clear();
  EXPECT_FALSE(owner.expired());
  buffer.Clear();
  EXPECT_TRUE(owner.expired());
}

TEST(FrameCodecTest, ReceivedPayloadPointsIntoTheBufferAndOutlivesIt) {
  v1::Frame whole = ActivationFrame();
  whole.set_payload(Pattern(50000));
  grpc::ByteBuffer buffer = Received(Sealed(whole.SerializeAsString()), 8192);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  v1::Frame frame;
  Payload payload;
  ASSERT_TRUE(DecodeFrame(buffer, &frame, &payload).ok());
  ASSERT_EQ(payload.chunks.size(), slices.size());
  EXPECT_EQ(static_cast<const void*>(payload.chunks[1].data()), slices[1].begin());
  slices.clear();
  buffer.Clear();
  EXPECT_EQ(Join(payload), whole.payload());
}

// A peer may be newer than we are: fields we do not know are carried past, payload behind them.
TEST(FrameCodecTest, UnknownFieldsBeforeThePayloadAreAccepted) {
  const std::string encoded =
      std::string("\x08\x05", 2) + std::string("\xa2\x06\x03xyz", 6) + std::string("\x7a\x02hi", 4);
  v1::Frame frame;
  Payload payload;
  ASSERT_TRUE(DecodeFrame(Received(Sealed(encoded), 3), &frame, &payload).ok());
  EXPECT_EQ(frame.epoch(), 5u);
  EXPECT_EQ(Join(payload), "hi");
}

TEST(FrameCodecTest, EmptyAndExplicitlyEmptyPayloadsAreTheSame) {
  for (const std::string& encoded :
       {std::string("\x08\x05", 2), std::string("\x08\x05\x7a\x00", 4)}) {
    v1::Frame frame;
    Payload payload;
    ASSERT_TRUE(DecodeFrame(Received(Sealed(encoded), 10), &frame, &payload).ok());
    EXPECT_EQ(frame.epoch(), 5u);
    EXPECT_TRUE(payload.chunks.empty());
  }
}

struct BadFrame {
  const char* name;
  std::string bytes;
};

class BadFrameTest : public testing::TestWithParam<BadFrame> {};

TEST_P(BadFrameTest, IsRefused) {
  for (const size_t piece : {1u, 1000u}) {
    v1::Frame frame;
    Payload payload;
    EXPECT_EQ(DecodeFrame(Received(GetParam().bytes, piece), &frame, &payload).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(payload.owner, nullptr);
  }
}

std::string S(const char* bytes, size_t size) { return std::string(bytes, size); }

INSTANTIATE_TEST_SUITE_P(
    All, BadFrameTest,
    testing::Values(BadFrame{"payload_before_epoch", S("\x7a\x02hi\x08\x05", 6)},
                    BadFrame{"payload_twice", S("\x7a\x02hi\x7a\x02hi", 8)},
                    BadFrame{"payload_shorter_than_said", S("\x7a\x05hi", 4)},
                    BadFrame{"payload_length_of_2_to_63",
                             S("\x7a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11)},
                    BadFrame{"payload_length_over_64_bits",
                             S("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11)},
                    BadFrame{"payload_as_varint", S("\x78\x05", 2)},
                    BadFrame{"payload_as_fixed64", S("\x79\x01\x02\x03\x04\x05\x06\x07\x08", 9)},
                    BadFrame{"overlong_payload_tag_not_last", S("\xfa\x80\x00\x01x\x08\x05", 7)},
                    BadFrame{"tag_of_field_zero", S("\x02\x00", 2)},
                    BadFrame{"tag_over_32_bits", S("\xfa\xff\xff\xff\x7f\x00", 6)},
                    BadFrame{"group", S("\x83\x01\x84\x01", 4)},
                    BadFrame{"end_of_group", S("\x84\x01", 2)},
                    BadFrame{"wire_type_seven", S("\x0f\x01", 2)},
                    BadFrame{"tag_cut", S("\xfa", 1)}, BadFrame{"varint_cut", S("\x08\x85", 2)},
                    BadFrame{"body_longer_than_frame", S("\x42\x7f\x08", 3)},
                    BadFrame{"body_length_of_2_to_31", S("\x42\x80\x80\x80\x80\x08\x08", 7)},
                    BadFrame{"body_malformed_inside", Sealed(S("\x42\x01\x08", 3))},
                    BadFrame{"text_not_utf8", Sealed(S("\x12\x04\x12\x02\xff\xfe", 6))},
                    BadFrame{"noise", S("\xde\xad\xbe\xef\xde\xad\xbe\xef", 8)}),
    [](const auto& info) { return info.param.name; });

// An overlong tag that does stand last is still the payload, as any protobuf parser reads it.
TEST(FrameCodecTest, OverlongTagOfALastPayloadIsThePayload) {
  v1::Frame frame;
  Payload payload;
  ASSERT_TRUE(DecodeFrame(Received(Sealed(S("\xfa\x80\x00\x01x", 5)), 1), &frame, &payload).ok());
  EXPECT_EQ(Join(payload), "x");
  EXPECT_TRUE(frame.payload().empty());
}

TEST(FrameCodecTest, FramesCutAtEveryByteNeverCrash) {
  v1::Frame whole = PlanFrame(50);
  whole.set_payload(Pattern(40));
  const std::string encoded = Sealed(whole.SerializeAsString());
  for (size_t size = 0; size < encoded.size(); ++size) {
    v1::Frame frame;
    Payload payload;
    const absl::Status status =
        DecodeFrame(Received(encoded.substr(0, size), 16), &frame, &payload);
    // Without the payload it is a frame still; its message says that there should be one.
    const bool is_boundary = size == encoded.size() - 42;
    EXPECT_EQ(status.ok(), is_boundary) << size << " " << status;
  }
}

TEST(FrameCodecTest, SizesAreBoundedAtTheLimitAndOneBeyond) {
  // Unknown field 100, length-delimited, of a chosen size: tag 2 bytes, length 4 bytes.
  const auto message = [](int64_t total) {
    const auto body = static_cast<uint64_t>(total - 6);
    std::string bytes = "\xa2\x06";
    for (int i = 0; i < 4; ++i) {
      bytes.push_back(static_cast<char>((body >> (7 * i) & 0x7f) | (i < 3 ? 0x80 : 0)));
    }
    bytes.resize(static_cast<size_t>(total));
    return bytes;
  };
  v1::Frame frame;
  Payload payload;
  EXPECT_TRUE(
      DecodeFrame(Received(Sealed(message(kMessageBytesMax)), 1 << 20), &frame, &payload).ok());
  EXPECT_THAT(
      DecodeFrame(Received(Sealed(message(kMessageBytesMax + 1)), 1 << 20), &frame, &payload)
          .message(),
      HasSubstr("at most 8388608"));
  v1::Frame whole;
  whole.set_payload(std::string(kPayloadBytesMax, 'x'));
  EXPECT_TRUE(
      DecodeFrame(Received(Sealed(whole.SerializeAsString()), 1 << 20), &frame, &payload).ok());
  whole.set_payload(std::string(kPayloadBytesMax + 1, 'x'));
  EXPECT_FALSE(
      DecodeFrame(Received(Sealed(whole.SerializeAsString()), 1 << 20), &frame, &payload).ok());
}

// Two bytes on the wire make an object of about a hundred in memory.
TEST(FrameCodecTest, VeryManyEmptyNestedMessagesAreRefusedBeforeTheyAreBuilt) {
  v1::Frame frame;
  for (int64_t i = 0; i < kFrameFieldsMax; ++i) frame.mutable_step_plan()->add_new_sequences();
  const std::string encoded = Sealed(frame.SerializeAsString());
  ASSERT_LT(encoded.size(), static_cast<size_t>(kMessageBytesMax));
  v1::Frame decoded;
  Payload payload;
  EXPECT_THAT(DecodeFrame(Received(encoded, 1 << 16), &decoded, &payload).message(),
              HasSubstr("fields"));
  frame.mutable_step_plan()->mutable_new_sequences()->DeleteSubrange(0, 1);
  EXPECT_TRUE(
      DecodeFrame(Received(Sealed(frame.SerializeAsString()), 1 << 16), &decoded, &payload).ok());
}

TEST(FrameCodecTest, TheLargestHonestPlanPasses) {
  const v1::Frame plan = PlanFrame(2 * 131072);
  const std::string encoded = Sealed(plan.SerializeAsString());
  ASSERT_GT(static_cast<int64_t>(encoded.size()), kUncountedMessageBytesMax);
  v1::Frame frame;
  Payload payload;
  ASSERT_TRUE(DecodeFrame(Received(encoded, 8192), &frame, &payload).ok());
  EXPECT_EQ(frame.step_plan().new_sequences(0).tokens_size(), 2 * 131072);
}

TEST(FrameRulesTest, RefusesWhatMayNotBeSent) {
  const std::string bytes = Pattern(kPayloadBytesMax + 1);
  EXPECT_TRUE(CheckFrame(ActivationFrame(), Chunked(bytes.substr(1), 1 << 18)).ok());
  EXPECT_FALSE(CheckFrame(ActivationFrame(), Chunked(bytes, 1 << 18)).ok());
  v1::Frame frame = ActivationFrame();
  frame.set_payload("x");
  EXPECT_FALSE(CheckFrame(frame, {}).ok());
  frame.Clear();
  frame.set_checksum(1);
  EXPECT_FALSE(CheckFrame(frame, {}).ok());
  frame.Clear();
  frame.mutable_failure()->set_message("out of memory");
  EXPECT_TRUE(CheckFrame(frame, {}).ok());
  EXPECT_FALSE(CheckFrame(frame, Chunked(bytes.substr(0, 4), 4)).ok());
  frame.mutable_failure()->set_message(std::string(kMessageBytesMax, 'x'));
  EXPECT_FALSE(CheckFrame(frame, {}).ok());
}

TEST(FrameRulesTest, ReasonsAreCut) {
  const absl::Status reason = CloseReason(absl::InternalError(std::string(100000, 'x')));
  EXPECT_EQ(reason.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(reason.message().size(), static_cast<size_t>(kCloseMessageBytesMax));
  EXPECT_TRUE(CloseReason(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace tutti::transport
