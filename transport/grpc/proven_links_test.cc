// Links whose ends prove that they know the cluster's secret, over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/grpc/frame_codec.h"
#include "transport/grpc/grpc_link.h"
#include "transport/grpc/hostile_peer_testing.h"
#include "transport/identify.h"
#include "transport/identifying_dialer.h"
#include "transport/limits.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

constexpr char kProvenName[] = "tutti://worker/w1";

std::shared_ptr<const ClusterSecret> Secret(char fill = 's') {
  return std::make_shared<const ClusterSecret>(std::string(32, fill));
}

class ProvenLinksTest : public testing::Test {
 protected:
  ProvenLinksTest() {
    const GateRules rules = {.secret = Secret(), .name = kProvenName};
    server_ =
        *GrpcPeerServer::Start({"127.0.0.1:0", {}, rules}, [this](std::unique_ptr<Link> link) {
          const MutexLock lock(&mutex_);
          links_.push_back(std::move(link));
          return accepted_.MakeHandler();
        });
    dialer_ = *GrpcDialer::Create();
  }
  ~ProvenLinksTest() override {
    server_.reset();
    dialer_.reset();
  }

  IdentifyingDialer DialerWith(char secret) {
    return IdentifyingDialer(dialer_.get(), Secret(secret));
  }
  size_t accepted_links() {
    const MutexLock lock(&mutex_);
    return links_.size();
  }

  Inbox accepted_, dialled_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Link>> links_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
};

TEST_F(ProvenLinksTest, FramesPassInOrderOnceBothAreProved) {
  IdentifyingDialer dialer = DialerWith('s');
  auto link = dialer.Dial({server_->address(), kProvenName}, dialled_.MakeHandler());
  const size_t count = kHeldFramesMax / 2;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(link->Send(NumberedFrame(i), OwnedPayload(100 * i)).ok());
  }
  ASSERT_TRUE(accepted_.WaitForFrames(count));
  for (size_t i = count; i < 100; ++i) ASSERT_TRUE(link->Send(NumberedFrame(i)).ok());
  ASSERT_TRUE(accepted_.WaitForFrames(100));
  const auto frames = accepted_.frames();
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].frame.activation().step(), i);
  EXPECT_TRUE(Join(frames[count - 1].payload) == Join(OwnedPayload(100 * (count - 1))));
  {
    const MutexLock lock(&mutex_);
    ASSERT_TRUE(links_.front()->Send(NumberedFrame(7)).ok());
  }
  EXPECT_TRUE(dialled_.WaitForFrames(1));
  link->Close(absl::AbortedError("enough"));
  ASSERT_TRUE(accepted_.WaitForClosed());
  EXPECT_EQ(accepted_.closed(), absl::AbortedError("enough"));
}

TEST_F(ProvenLinksTest, AnotherSecretOrNameIsRefusedAndNothingIsTold) {
  for (const auto& [secret, name] :
       {std::pair<char, const char*>{'x', kProvenName}, {'s', "tutti://coordinator"}}) {
    IdentifyingDialer dialer = DialerWith(secret);
    Inbox inbox;
    auto link = dialer.Dial({server_->address(), name}, inbox.MakeHandler());
    (void)link->Send(NumberedFrame(1));
    ASSERT_TRUE(inbox.WaitForClosed());
    EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kUnauthenticated) << inbox.closed();
  }
  EXPECT_EQ(accepted_.frame_count(), 0u);
  EXPECT_EQ(accepted_links(), 0u) << "who accepts links has not heard of them";
}

TEST_F(ProvenLinksTest, ADialerWithoutSecretIsTurnedAway) {
  auto link = dialer_->Dial(server_->address(), dialled_.MakeHandler());
  (void)link->Send(NumberedFrame(1));
  ASSERT_TRUE(dialled_.WaitForClosed());
  EXPECT_EQ(dialled_.closed(), NotIdentified());
  EXPECT_EQ(accepted_links(), 0u);
}

TEST_F(ProvenLinksTest, AListenerWithoutSecretGetsNoFrame) {
  Inbox others;
  Mutex mutex;
  std::vector<std::unique_ptr<Link>> links;
  auto other = *GrpcPeerServer::Start({"127.0.0.1:0", {}}, [&](std::unique_ptr<Link> link) {
    const MutexLock lock(&mutex);
    // An impostor that answers at once.
    (void)link->Send(NumberedFrame(1));
    links.push_back(std::move(link));
    return others.MakeHandler();
  });
  IdentifyingDialer dialer(dialer_.get(), Secret());
  auto link = dialer.Dial({other->address(), kProvenName}, dialled_.MakeHandler());
  (void)link->Send(NumberedFrame(99));
  ASSERT_TRUE(dialled_.WaitForClosed());
  EXPECT_EQ(dialled_.closed().code(), absl::StatusCode::kUnauthenticated);
  for (const auto& received : others.frames()) EXPECT_TRUE(received.frame.has_identify());
  other.reset();
}

TEST_F(ProvenLinksTest, FramesThatWaitForTheProofAreBounded) {
  Inbox others;
  auto other = *GrpcPeerServer::Start({"127.0.0.1:0", {}}, [&](std::unique_ptr<Link> link) {
    const MutexLock lock(&mutex_);
    links_.push_back(std::move(link));  // and never answers
    return others.MakeHandler();
  });
  IdentifyingDialer dialer(dialer_.get(), Secret());
  auto link = dialer.Dial({other->address(), kProvenName}, dialled_.MakeHandler());
  for (size_t i = 0; i < kHeldFramesMax; ++i) EXPECT_TRUE(link->Send(NumberedFrame(i)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(link->Send(NumberedFrame(0))));
  link.reset();
  EXPECT_TRUE(dialled_.WaitForHandlerGone());
  other.reset();
}

// Every refusal before the proof is the same, whatever was sent, and reaches no handler.
TEST_F(ProvenLinksTest, StrangersLearnOneText) {
  v1::Frame hello;
  hello.mutable_hello()->set_worker_id("w1");
  v1::Frame large = DialerProof(Secret(), kProvenName).First();
  large.mutable_identify()->set_nonce(std::string(kIdentifyFrameBytesMax, 'n'));
  for (const grpc::ByteBuffer& bytes :
       {Bytes(""), Bytes("\x12"), Bytes("no frame"), Bytes(std::string(1 << 20, 'x')),
        EncodeFrame(hello, {}), EncodeFrame(large, {}),
        EncodeFrame(NumberedFrame(1), OwnedPayload(9))}) {
    RawClient client(server_->address());
    (void)client.Write(bytes);
    grpc::ByteBuffer answer;
    EXPECT_FALSE(client.Read(&answer));
    const grpc::Status status = client.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(status.error_message(), std::string(NotIdentified().message()));
  }
  EXPECT_EQ(accepted_links(), 0u);
}

TEST_F(ProvenLinksTest, SilentStrangersKeepNobodyOutAndHarmNoLink) {
  IdentifyingDialer dialer = DialerWith('s');
  auto link = dialer.Dial({server_->address(), kProvenName}, dialled_.MakeHandler());
  ASSERT_TRUE(link->Send(NumberedFrame(0)).ok());
  ASSERT_TRUE(accepted_.WaitForFrames(1));
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < kStrangersMax; ++i) {
    strangers.push_back(std::make_unique<RawClient>(server_->address()));
    ASSERT_TRUE(
        strangers.back()->Write(EncodeFrame(DialerProof(Secret(), kProvenName).First(), {})));
    grpc::ByteBuffer answer;
    ASSERT_TRUE(strangers.back()->Read(&answer));
  }
  // A peer that comes now gets in at once: the oldest of them makes way, and no link that stands.
  Inbox inbox;
  auto next = dialer.Dial({server_->address(), kProvenName}, inbox.MakeHandler());
  ASSERT_TRUE(next->Send(NumberedFrame(2)).ok());
  EXPECT_TRUE(accepted_.WaitForFrames(2));
  ASSERT_TRUE(link->Send(NumberedFrame(1)).ok());
  EXPECT_TRUE(accepted_.WaitForFrames(3));
  EXPECT_EQ(strangers.front()->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // The others have to go after kIdentifyTimeout.
  for (size_t i = 1; i < strangers.size(); ++i) {
    EXPECT_EQ(strangers[i]->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
}

}  // namespace
}  // namespace tutti::transport
