// The promises of link.h for links that end, are refused, or never stand, for every kind of link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/limits.h"
#include "transport/link_contract_testing.h"

namespace tutti::transport {
namespace {

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

// Sends until `end` is closed, never far ahead of the frames out. Returns the last answer of Send.
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

// The links outlive the network that made them.
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
