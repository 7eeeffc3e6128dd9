// The promises of link.h for frames that travel, for every kind of link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "transport/limits.h"
#include "transport/link_contract_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, LinkContractTest, testing::Values("inproc", "tcp", "unix"),
                         [](const auto& info) { return info.param; });

TEST_P(LinkContractTest, TenThousandSmallFramesArriveInOrder) {
  Connection& c = Connect();
  constexpr uint64_t kFrames = 10000;
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(c.link->Send(NumberedFrame(i)).ok());
  ASSERT_TRUE(c.accepted.WaitForFrames(kFrames));
  const auto frames = c.accepted.frames();
  for (uint64_t i = 0; i < kFrames; ++i) ASSERT_EQ(frames[i].frame.activation().step(), i);
}

TEST_P(LinkContractTest, FramesSentBeforeTheConnectionStandsArrive) {
  Connection& c = Dial();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(c.link->Send(NumberedFrame(i)).ok());
  EXPECT_TRUE(c.accepted.WaitForFrames(10));
}

TEST_P(LinkContractTest, PayloadsOfAnySizeAndChunkingArriveWhole) {
  Connection& c = Connect();
  std::vector<Payload> sent;
  const auto inline_max = static_cast<size_t>(kInlinePayloadBytesMax);
  for (const size_t size : {size_t{0}, size_t{1}, inline_max, inline_max + 1, size_t{65536},
                            static_cast<size_t>(kPayloadBytesMax)}) {
    for (const size_t chunk : {SIZE_MAX, size_t{100000}, size_t{1999}}) {
      sent.push_back(OwnedPayload(size, static_cast<uint8_t>(sent.size()), chunk));
      ASSERT_TRUE(c.link->Send(NumberedFrame(sent.size()), sent.back()).ok());
    }
  }
  ASSERT_TRUE(c.accepted.WaitForFrames(sent.size()));
  const auto frames = c.accepted.frames();
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(frames[i].frame.activation().step(), i + 1);
    EXPECT_TRUE(frames[i].frame.payload().empty());
    EXPECT_TRUE(Join(frames[i].payload) == Join(sent[i])) << i;
  }
}

TEST_P(LinkContractTest, BothDirectionsAtOnceFromSeveralThreads) {
  Connection& c = Connect();
  constexpr uint64_t kThreads = 3, kFrames = 300;
  const Payload payload = OwnedPayload(20000, 3, 7000);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kFrames; ++i) {
        const bool has_payload = (i + t) % 3 == 0;
        for (const bool is_dialer : {true, false}) {
          EXPECT_TRUE(c.end(is_dialer)
                          ->Send(NumberedFrame(t << 32 | i), has_payload ? payload : Payload())
                          .ok());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string expected = Join(payload);
  for (const bool is_dialer : {true, false}) {
    ASSERT_TRUE(c.inbox(is_dialer).WaitForFrames(kThreads * kFrames));
    std::vector<uint64_t> next(kThreads, 0);
    for (const auto& [frame, received] : c.inbox(is_dialer).frames()) {
      const uint64_t step = frame.activation().step();
      const uint64_t thread = step >> 32, i = step & 0xffffffff;
      ASSERT_EQ(i, next[thread]++);  // each sender's own order is kept
      ASSERT_TRUE(Join(received) == ((i + thread) % 3 == 0 ? expected : ""));
    }
  }
}

TEST_P(LinkContractTest, CountersEqualTheEncodedSizes) {
  Connection& c = Connect();
  int64_t bytes = 0;
  for (const size_t size : {0u, 5u, 5000u, 300000u}) {
    const v1::Frame frame = NumberedFrame(size);
    const Payload payload = OwnedPayload(size);
    v1::Frame whole = frame;
    whole.set_payload(Join(payload));
    whole.set_checksum(1);
    bytes += static_cast<int64_t>(whole.ByteSizeLong());
    ASSERT_TRUE(c.link->Send(frame, payload).ok());
  }
  ASSERT_TRUE(c.link->Send(v1::Frame()).ok());  // nothing at all but a checksum
  bytes += kChecksumFieldBytes;
  ASSERT_TRUE(c.accepted.WaitForFrames(5));
  EXPECT_EQ(c.accepted_link->stats().bytes_in, bytes);
  EXPECT_EQ(c.accepted_link->stats().frames_in, 5);
  EXPECT_EQ(c.link->stats().bytes_out, bytes);
  EXPECT_EQ(c.link->stats().frames_out, 5);
  EXPECT_EQ(c.link->stats().bytes_in, 0);
  // Closing adds nothing.
  c.link->Close(absl::InternalError("done"));
  ASSERT_TRUE(c.accepted.WaitForClosed());
  EXPECT_EQ(c.accepted_link->stats().bytes_in, bytes);
  EXPECT_EQ(c.link->stats().frames_out, 5);
  EXPECT_EQ(c.accepted_link->stats().bytes_out, 0);
}

TEST_P(LinkContractTest, FramesThatMayNotBeSentAreRefusedAndTheLinkGoesOn) {
  Connection& c = Connect();
  v1::Frame frame = NumberedFrame(1);
  frame.set_payload("beside the point");
  EXPECT_EQ(c.link->Send(frame).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(c.link->Send(NumberedFrame(1), OwnedPayload(kPayloadBytesMax + 1)).code(),
            absl::StatusCode::kInvalidArgument);
  frame.Clear();
  frame.mutable_failure()->set_message("out of memory");
  EXPECT_EQ(c.link->Send(frame, OwnedPayload(1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(c.link->Send(frame).ok());
  ASSERT_TRUE(c.accepted.WaitForFrames(1));
  EXPECT_EQ(c.accepted.frames()[0].frame.failure().message(), "out of memory");
}

TEST_P(LinkContractTest, WhatWaitsIsBoundedAndGoesOnWhenThePeerReadsAgain) {
  Connection& c = Connect();
  c.accepted.Block();
  const Payload payload = OwnedPayload(kPayloadChunkBytes);
  absl::Status status;
  uint64_t sent = 0;
  // The bytes in the sockets and the receiver come on top of the limit; they are bounded as well.
  for (; status.ok() && sent < 1000; ++sent) status = c.link->Send(NumberedFrame(sent), payload);
  --sent;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("268435456"));
  EXPECT_GE(sent, static_cast<uint64_t>(kQueuedBytesMax / kPayloadBytesMax));
  EXPECT_LE(sent, static_cast<uint64_t>(kQueuedBytesMax / kPayloadChunkBytes + 64));
  c.accepted.Unblock();
  ASSERT_TRUE(c.accepted.WaitForFrames(sent));
  EXPECT_TRUE(c.link->Send(NumberedFrame(sent)).ok());
  ASSERT_TRUE(c.accepted.WaitForFrames(sent + 1));
  EXPECT_EQ(c.accepted.frames().back().frame.activation().step(), sent);
}

}  // namespace
}  // namespace tutti::transport
