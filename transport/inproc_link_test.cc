// In-process links beyond the contract of all links (link_contract_test.cc).
#include "transport/inproc_link.h"

#include <gtest/gtest.h>

#include <future>

#include "transport/frame_rules.h"
#include "transport/limits.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

struct Ends {
  // In this order: the inboxes outlive the network, which outlives nothing that is its own.
  Inbox dialed, accepted;
  std::unique_ptr<Link> link, accepted_link;
  InprocNetwork network;

  explicit Ends(const std::string& name = "a") {
    EXPECT_TRUE(network
                    .Listen(name,
                            [this](std::unique_ptr<Link> link) {
                              accepted_link = std::move(link);
                              return accepted.MakeHandler();
                            })
                    .ok());
    link = network.MakeDialer()->Dial(name, dialed.MakeHandler());
  }
};

TEST(InprocLinkTest, PayloadsAreHandedOverUncopied) {
  Ends ends;
  const Payload payload = OwnedPayload(100);
  ASSERT_TRUE(ends.link->Send(NumberedFrame(1), payload).ok());
  ASSERT_TRUE(ends.accepted.WaitForFrames(1));
  const Payload received = ends.accepted.frames()[0].payload;
  EXPECT_EQ(received.chunks[0].data(), payload.chunks[0].data());
  EXPECT_EQ(received.owner, payload.owner);
}

TEST(InprocLinkTest, VeryManyTinyFramesAreBounded) {
#ifdef TUTTI_PARANOID
  GTEST_SKIP() << "a million frames take a minute under sanitizers";
#endif
  std::promise<void> release;
  std::shared_future<void> released = release.get_future();
  Ends ends;
  ends.accepted.on_frame = [&](v1::Frame, Payload) { released.wait(); };
  const int64_t each = kQueuedFrameOverheadBytes + EncodedFrameBytes(v1::Frame(), 0);
  const auto limit = static_cast<uint64_t>(kQueuedBytesMax / each);
  absl::Status status;
  uint64_t sent = 0;
  for (; status.ok() && sent <= limit + 1; ++sent) status = ends.link->Send(v1::Frame());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(sent, limit);
  ends.link->Close(absl::OkStatus());
  release.set_value();
  EXPECT_TRUE(ends.accepted.WaitForClosed());
}

TEST(InprocLinkTest, ANameIsTakenOnceAndFreeAgain) {
  InprocNetwork network;
  const auto refuse = [](std::unique_ptr<Link>) { return nullptr; };
  EXPECT_TRUE(network.Listen("a", refuse).ok());
  EXPECT_EQ(network.Listen("a", refuse).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(network.Listen("b", refuse).ok());
  network.StopListening("a");
  EXPECT_TRUE(network.Listen("a", refuse).ok());
}

TEST(InprocLinkTest, StoppingOneListenerLeavesTheOthersLinks) {
  Inbox a_dialed, a_accepted, b_dialed, b_accepted;
  std::unique_ptr<Link> a_link, b_link;
  InprocNetwork network;
  const auto keep = [](Inbox* inbox, std::unique_ptr<Link>* kept) {
    return [=](std::unique_ptr<Link> link) {
      *kept = std::move(link);
      return inbox->MakeHandler();
    };
  };
  ASSERT_TRUE(network.Listen("a", keep(&a_accepted, &a_link)).ok());
  ASSERT_TRUE(network.Listen("b", keep(&b_accepted, &b_link)).ok());
  auto to_a = network.MakeDialer()->Dial("a", a_dialed.MakeHandler());
  auto to_b = network.MakeDialer()->Dial("b", b_dialed.MakeHandler());
  ASSERT_TRUE(to_b->Send(NumberedFrame(1)).ok());
  ASSERT_TRUE(b_accepted.WaitForFrames(1));
  network.StopListening("a");
  ASSERT_TRUE(a_dialed.WaitForClosed());
  EXPECT_EQ(a_dialed.closed().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(to_b->Send(NumberedFrame(2)).ok());
  EXPECT_TRUE(b_accepted.WaitForFrames(2));
}

TEST(InprocLinkTest, ADialerThatOutlivesItsNetworkIsToldSo) {
  Inbox inbox;
  auto network = std::make_unique<InprocNetwork>();
  auto dialer = network->MakeDialer();
  network.reset();
  auto link = dialer->Dial("a", inbox.MakeHandler());
  ASSERT_TRUE(inbox.WaitForClosed());
  EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kUnavailable);
}

TEST(InprocLinkTest, AcceptsNoMoreLinksThanTheLimit) {
  Inbox accepted;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Inbox>> dialed;
  InprocNetwork network;
  ASSERT_TRUE(network
                  .Listen("a",
                          [&](std::unique_ptr<Link> link) {
                            links.push_back(std::move(link));
                            return std::make_unique<LinkHandlerThatIgnores>();
                          })
                  .ok());
  auto dialer = network.MakeDialer();
  std::vector<std::unique_ptr<Link>> dialed_links;
  for (int64_t i = 0; i <= kAcceptedLinksMax; ++i) {
    dialed.push_back(std::make_unique<Inbox>());
    dialed_links.push_back(dialer->Dial("a", dialed.back()->MakeHandler()));
  }
  ASSERT_TRUE(dialed.back()->WaitForClosed());
  EXPECT_EQ(dialed.back()->closed().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(dialed.front()->is_closed());
  dialed_links.front().reset();
  ASSERT_TRUE(dialed.front()->WaitForClosed());
}

}  // namespace
}  // namespace tutti::transport
