// What link.h promises, of every link there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/mutex.h"
#include "transport/limits.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

// One listener and one dialer of some kind.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::string Listen(AcceptCallback accept) = 0;  // returns what to dial
  virtual void StopListening() = 0;
  virtual Dialer* dialer() = 0;
  virtual std::string nowhere() = 0;  // where nobody listens
};

class TestInprocNetwork : public Network {
 public:
  std::string Listen(AcceptCallback accept) override {
    EXPECT_TRUE(network_.Listen("listener", std::move(accept)).ok());
    return "listener";
  }
  void StopListening() override { network_.StopListening("listener"); }
  Dialer* dialer() override { return dialer_.get(); }
  std::string nowhere() override { return "nobody"; }

 private:
  InprocNetwork network_;
  std::unique_ptr<Dialer> dialer_ = network_.MakeDialer();
};

class TestGrpcNetwork : public Network {
 public:
  explicit TestGrpcNetwork(std::string address)
      : address_(std::move(address)), dialer_(*GrpcDialer::Create()) {}
  std::string Listen(AcceptCallback accept) override {
    auto server = GrpcPeerServer::Start({address_, {}}, std::move(accept));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    return server_->address();
  }
  void StopListening() override { server_->Stop(); }
  Dialer* dialer() override { return dialer_.get(); }
  std::string nowhere() override { return FreshUnixAddress(); }

 private:
  const std::string address_;
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
};

// Both ends of one link, and what they were told.
struct Connection {
  Inbox dialed, accepted;
  std::unique_ptr<Link> link, accepted_link;

  // The end that acts and what its peer is told, for tests that do the same from both sides.
  Link* end(bool is_dialer) { return (is_dialer ? link : accepted_link).get(); }
  Inbox& inbox(bool is_dialer) { return is_dialer ? dialed : accepted; }
};

class LinkContractTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "inproc") network_ = std::make_unique<TestInprocNetwork>();
    if (GetParam() == "tcp") network_ = std::make_unique<TestGrpcNetwork>("127.0.0.1:0");
    if (GetParam() == "unix") network_ = std::make_unique<TestGrpcNetwork>(FreshUnixAddress());
    target_ = network_->Listen([this](std::unique_ptr<Link> link) {
      const MutexLock lock(&mutex_);
      auto handler = refuse_ ? nullptr : dialing_->accepted.MakeHandler();
      dialing_->accepted_link = refuse_ ? nullptr : std::move(link);
      changed_.NotifyAll();
      return handler;
    });
  }

  void TearDown() override {
    for (const auto& connection : connections_) {
      connection->dialed.Unblock();
      connection->accepted.Unblock();
    }
    network_.reset();
    for (const auto& connection : connections_) {
      for (const bool is_dialer : {true, false}) {
        EXPECT_TRUE(connection->inbox(is_dialer).WaitForHandlerGone());
        EXPECT_EQ(connection->inbox(is_dialer).violations, 0);
      }
    }
  }

  Connection& Dial() {
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    {
      const MutexLock lock(&mutex_);
      dialing_ = &connection;
    }
    connection.link = network_->dialer()->Dial(target_, connection.dialed.MakeHandler());
    return connection;
  }

  // Dials, and waits until both ends are there.
  Connection& Connect() {
    Connection& connection = Dial();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (connection.accepted_link == nullptr && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_NE(connection.accepted_link, nullptr);
    return connection;
  }

  // Outlive the network, whose threads use them.
  std::vector<std::unique_ptr<Connection>> connections_;
  Mutex mutex_;
  ConditionVariable changed_;
  Connection* dialing_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Network> network_;
  std::string target_;
};

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
    bytes += static_cast<int64_t>(whole.ByteSizeLong());
    ASSERT_TRUE(c.link->Send(frame, payload).ok());
  }
  ASSERT_TRUE(c.link->Send(v1::Frame()).ok());  // nothing at all: a frame of no bytes
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

TEST_P(LinkContractTest, TheReasonReachesThePeerAfterWhatWasQueued) {
  const Payload payload = OwnedPayload(500000);
  for (const bool by_dialer : {true, false}) {
    Connection& c = Connect();
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(c.end(by_dialer)->Send(NumberedFrame(i), payload).ok());
    }
    const absl::Status reason = absl::DataLossError("layer 3 on \xc3\xbc:\n%41 are not numbers");
    c.end(by_dialer)->Close(reason);
    ASSERT_TRUE(c.inbox(!by_dialer).WaitForClosed());
    EXPECT_EQ(c.inbox(!by_dialer).closed(), reason);
    EXPECT_EQ(c.inbox(!by_dialer).frame_count(), 20u);
    ASSERT_TRUE(c.inbox(by_dialer).WaitForClosed());
    EXPECT_EQ(c.inbox(by_dialer).closed(), reason);
  }
}

TEST_P(LinkContractTest, EveryCodeTravelsAndLongMessagesAreCut) {
  for (int code = 0; code <= 16; ++code) {
    for (const bool by_dialer : {true, false}) {
      Connection& c = Connect();
      const std::string message(100000, code % 2 == 0 ? '%' : '\x80');
      c.end(by_dialer)->Close(absl::Status(static_cast<absl::StatusCode>(code), message));
      ASSERT_TRUE(c.inbox(!by_dialer).WaitForClosed());
      EXPECT_EQ(c.inbox(!by_dialer).closed(),
                absl::Status(static_cast<absl::StatusCode>(code),
                             message.substr(0, static_cast<size_t>(kCloseMessageBytesMax))));
    }
  }
}

TEST_P(LinkContractTest, DestroyingALinkClosesItInGoodOrder) {
  for (const bool by_dialer : {true, false}) {
    Connection& c = Connect();
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(c.end(by_dialer)->Send(NumberedFrame(i)).ok());
    (by_dialer ? c.link : c.accepted_link).reset();
    for (const bool is_dialer : {true, false}) {
      ASSERT_TRUE(c.inbox(is_dialer).WaitForClosed());
      EXPECT_TRUE(c.inbox(is_dialer).closed().ok()) << c.inbox(is_dialer).closed();
      EXPECT_TRUE(c.inbox(is_dialer).WaitForHandlerGone());
    }
    EXPECT_EQ(c.inbox(!by_dialer).frame_count(), 100u);
  }
}

TEST_P(LinkContractTest, BothEndsDestroyedAtOnce) {
  for (int i = 0; i < 20; ++i) {
    Connection& c = Connect();
    std::thread other([&] { c.accepted_link.reset(); });
    c.link.reset();
    other.join();
    EXPECT_TRUE(c.dialed.WaitForHandlerGone());
    EXPECT_TRUE(c.accepted.WaitForHandlerGone());
  }
}

TEST_P(LinkContractTest, SendAfterCloseIsUnavailable) {
  for (const bool by_dialer : {true, false}) {
    Connection& c = Connect();
    c.end(by_dialer)->Close(absl::OkStatus());
    EXPECT_EQ(c.end(by_dialer)->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
    ASSERT_TRUE(c.inbox(!by_dialer).WaitForClosed());
    EXPECT_EQ(c.end(!by_dialer)->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
    c.end(by_dialer)->Close(absl::InternalError("a second time"));
    EXPECT_TRUE(c.inbox(!by_dialer).closed().ok());
  }
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
  // What the sockets and the receiver hold comes on top of the limit; it is bounded as well.
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

std::weak_ptr<const void> SendOwned(Link* link, size_t size) {
  Payload payload = OwnedPayload(size);
  std::weak_ptr<const void> owner = payload.owner;
  EXPECT_TRUE(link->Send(NumberedFrame(1), std::move(payload)).ok());
  return owner;
}

bool WaitForExpired(const std::weak_ptr<const void>& owner) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!owner.expired()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_P(LinkContractTest, ThePayloadsOwnerIsLetGoOnceItIsSent) {
  Connection& c = Connect();
  const auto small = SendOwned(c.link.get(), 10);
  const auto large = SendOwned(c.link.get(), 500000);
  ASSERT_TRUE(c.accepted.WaitForFrames(2));
  c.accepted.Forget();
  EXPECT_TRUE(WaitForExpired(small));
  EXPECT_TRUE(WaitForExpired(large));
}

TEST_P(LinkContractTest, ThePayloadsOwnersAreLetGoWhenThePeerVanishes) {
  Connection& c = Connect();
  std::vector<std::weak_ptr<const void>> owners;
  for (int i = 0; i < 50; ++i) owners.push_back(SendOwned(c.link.get(), kPayloadChunkBytes));
  network_->StopListening();
  ASSERT_TRUE(c.dialed.WaitForClosed());
  c.accepted.Forget();
  for (const auto& owner : owners) EXPECT_TRUE(WaitForExpired(owner));
}

TEST_P(LinkContractTest, AListenerThatStopsIsUnavailable) {
  Connection& c = Connect();
  network_->StopListening();
  ASSERT_TRUE(c.dialed.WaitForClosed());
  EXPECT_EQ(c.dialed.closed().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(c.accepted.WaitForClosed());
  EXPECT_EQ(c.link->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
  Connection& late = Dial();
  ASSERT_TRUE(late.dialed.WaitForClosed());
  EXPECT_EQ(late.dialed.closed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(LinkContractTest, NobodyListeningIsUnavailable) {
  Inbox inbox;
  auto link = network_->dialer()->Dial(network_->nowhere(), inbox.MakeHandler());
  (void)link->Send(NumberedFrame(1));
  ASSERT_TRUE(inbox.WaitForClosed());
  EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(link->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(inbox.WaitForHandlerGone());
}

TEST_P(LinkContractTest, AListenerMayRefuse) {
  {
    const MutexLock lock(&mutex_);
    refuse_ = true;
  }
  Connection& c = Dial();
  (void)c.link->Send(NumberedFrame(1));
  ASSERT_TRUE(c.dialed.WaitForClosed());
  EXPECT_EQ(c.dialed.closed().code(), absl::StatusCode::kPermissionDenied);
}

// A handler that answers, closes and destroys its own link, all on the link's own thread.
TEST_P(LinkContractTest, AHandlerMaySendCloseAndDestroyItsLink) {
  Connection& c = Connect();
  c.accepted.on_frame = [&](v1::Frame frame, Payload payload) {
    EXPECT_TRUE(c.accepted_link->Send(frame, payload).ok());
    if (frame.activation().step() == 3) c.accepted_link.reset();
  };
  c.dialed.on_closed = [&] { c.link.reset(); };
  for (uint64_t i = 1; i <= 3; ++i)
    ASSERT_TRUE(c.link->Send(NumberedFrame(i), OwnedPayload(5000)).ok());
  ASSERT_TRUE(c.dialed.WaitForHandlerGone());
  EXPECT_TRUE(c.dialed.closed().ok());
  EXPECT_EQ(c.dialed.frame_count(), 3u);
  EXPECT_TRUE(c.accepted.WaitForHandlerGone());
}

// Sends until `end` is closed, never far ahead of what left. Returns what Send said last.
absl::Status SendUntilClosed(Link* end, Inbox* inbox, std::atomic<int64_t>* sent) {
  const Payload payload = OwnedPayload(10000);
  absl::Status status;
  while (status.ok()) {
    while (*sent > end->stats().frames_out + 100 && !inbox->is_closed()) std::this_thread::yield();
    status = end->Send(NumberedFrame(1), (*sent)++ % 2 ? payload : Payload());
  }
  return status;
}

TEST_P(LinkContractTest, LinksClosedWhileManyThreadsSend) {
  for (int round = 0; round < 10; ++round) {
    const bool by_dialer = round % 2 == 0;
    Connection& c = Connect();
    std::atomic<int64_t> sent[2] = {0, 0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, is_dialer = t % 2 == 0] {
        EXPECT_EQ(SendUntilClosed(c.end(is_dialer), &c.inbox(is_dialer), &sent[is_dialer]).code(),
                  absl::StatusCode::kUnavailable);
      });
    }
    EXPECT_TRUE(c.accepted.WaitForFrames(50));
    EXPECT_TRUE(c.dialed.WaitForFrames(50));
    c.end(by_dialer)->Close(absl::AbortedError("enough"));
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(c.inbox(!by_dialer).WaitForClosed());
    EXPECT_EQ(c.inbox(!by_dialer).closed().message(), "enough");
    c.dialed.Forget();
    c.accepted.Forget();
  }
}

TEST_P(LinkContractTest, StoppingTheListenerUnderLoadHurtsNobody) {
  constexpr int kLinks = 4;
  std::vector<Connection*> connections;
  for (int i = 0; i < kLinks; ++i) connections.push_back(&Connect());
  std::atomic<int64_t> sent[kLinks][2] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kLinks; ++i) {
    threads.emplace_back([&, c = connections[i / 2], is_dialer = i % 2 == 0, i] {
      EXPECT_EQ(
          SendUntilClosed(c->end(is_dialer), &c->inbox(is_dialer), &sent[i / 2][is_dialer]).code(),
          absl::StatusCode::kUnavailable);
    });
  }
  for (Connection* c : connections) EXPECT_TRUE(c->accepted.WaitForFrames(50));
  network_->StopListening();
  for (auto& thread : threads) thread.join();
  for (Connection* c : connections) {
    EXPECT_TRUE(c->dialed.WaitForClosed());
    EXPECT_EQ(c->dialed.closed().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(c->accepted.WaitForClosed());
  }
}

// The links outlive what made them.
TEST_P(LinkContractTest, DestroyingTheNetworkClosesLinksThatAreStillHeld) {
  Connection& c = Connect();
  network_.reset();
  EXPECT_TRUE(c.dialed.is_closed());
  EXPECT_TRUE(c.accepted.is_closed());
  EXPECT_EQ(c.link->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(c.accepted_link->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(c.link->peer().empty());
}

}  // namespace
}  // namespace tutti::transport
