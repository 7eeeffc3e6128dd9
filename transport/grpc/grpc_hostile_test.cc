// Peers that speak gRPC and do not keep to the protocol: each is answered with a status, and no
// other link is disturbed.
#include <gmock/gmock.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "transport/crc32c.h"
#include "transport/grpc/close_frame.h"
#include "transport/grpc/frame_codec.h"
#include "transport/grpc/frame_sealing_testing.h"
#include "transport/grpc/hostile_peer_testing.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

TEST_F(HostilePeerTest, BytesThatAreNoFrame) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(Bytes("\xde\xad\xbe\xef and so on")));
  const grpc::Status status = client.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("malformed"));
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, FrameWithoutAChecksum) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(Bytes(NumberedFrame(1).SerializeAsString())));
  const grpc::Status status = client.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr("checksum"));
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, PayloadThatIsNotLast) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeFrame(NumberedFrame(1), {})));
  ASSERT_TRUE(client.Write(Bytes(std::string("\x7a\x02hi\x08\x05", 6))));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.frame_count(), 1u);
}

TEST_F(HostilePeerTest, MessageBeyondTheLimit) {
  RawClient client(server_->address());
  (void)client.Write(Bytes(std::string(static_cast<size_t>(kFrameBytesMax) + 1, '\x08')));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_FALSE(bad_.closed().ok());
}

// A kilobyte that would become a megabyte is not even unpacked.
TEST_F(HostilePeerTest, CompressedMessage) {
  v1::Frame frame;
  frame.mutable_hello()->set_cluster_id(std::string(1 << 20, 'x'));
  RawClient client(server_->address(), "/tutti.peer.v1.Peer/Connect", GRPC_COMPRESS_GZIP);
  (void)client.Write(Bytes(frame.SerializeAsString()));
  EXPECT_FALSE(client.Finish().ok());
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, StreamThatEndsWithoutAReason) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeFrame(NumberedFrame(1), {})));
  ASSERT_TRUE(client.WritesDone());
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(bad_.frame_count(), 1u);
}

TEST_F(HostilePeerTest, StreamThatIsCancelled) {
  RawClient client(server_->address());
  WaitForBadLink();
  client.Cancel();
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(HostilePeerTest, FramesAfterTheReasonAreIgnored) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeCloseFrame(absl::AbortedError("bye"))));
  (void)client.Write(EncodeFrame(NumberedFrame(1), {}));
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::AbortedError("bye"));
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, AReasonWithACodeNobodyKnows) {
  RawClient client(server_->address());
  std::string reason = "\xc8hm";
  const uint32_t checksum = Crc32c(std::as_bytes(std::span(reason)));
  for (int shift = 0; shift < 32; shift += 8) reason += static_cast<char>(checksum >> shift);
  const std::string frame = std::string("\x6a\x00\x7a\x07", 4) + reason;
  ASSERT_TRUE(client.Write(Bytes(Sealed(frame))));
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::UnknownError("hm"));
}

TEST_F(HostilePeerTest, MethodThatDoesNotExist) {
  RawClient client(server_->address(), "/tutti.peer.v1.Peer/Shutdown");
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// A peer's port serves peers only, even if the process serves more elsewhere.
TEST(PeerPortTest, ServesNothingElse) {
  grpc::EnableDefaultHealthCheckService(true);
  auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, nullptr);
  grpc::EnableDefaultHealthCheckService(false);
  ASSERT_TRUE(server.ok()) << server.status();
  RawClient client((*server)->address(), "/grpc.health.v1.Health/Watch");
  (void)client.Write(Bytes(""));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// The queue to a peer that never reads is bounded, and stopping does not wait for it.
TEST_F(HostilePeerTest, PeerThatNeverReads) {
  RawClient client(server_->address());
  Link* link = WaitForBadLink();
  const Payload payload = OwnedPayload(kPayloadChunkBytes);
  absl::Status status;
  int sent = 0;
  for (; status.ok() && sent < 1000; ++sent) status = link->Send(NumberedFrame(1), payload);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(sent, 400);
  // Its own end is told, though the peer cannot be.
  link->Close(absl::ResourceExhaustedError("does not read"));
  const auto begin = steady_clock::now();
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::ResourceExhaustedError("does not read"));
  EXPECT_LT(steady_clock::now() - begin, kCloseTimeout + std::chrono::seconds(3));
}

// Not a HostilePeerTest: stopping ends the good link too.
TEST(HostilePeerStopTest, StoppingDoesNotWaitForAPeerThatNeverReads) {
  Inbox inbox;
  std::promise<std::unique_ptr<Link>> accepted;
  auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, [&](std::unique_ptr<Link> link) {
    accepted.set_value(std::move(link));
    return inbox.MakeHandler();
  });
  ASSERT_TRUE(server.ok());
  RawClient client((*server)->address());
  const auto link = accepted.get_future().get();
  const Payload payload = OwnedPayload(kPayloadChunkBytes);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(link->Send(NumberedFrame(1), payload).ok());
  const auto begin = steady_clock::now();
  (*server)->Stop();
  EXPECT_LT(steady_clock::now() - begin, kStopTimeout + std::chrono::seconds(3));
  EXPECT_TRUE(inbox.is_closed());
}

}  // namespace
}  // namespace tutti::transport
