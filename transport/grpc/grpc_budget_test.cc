// The bytes that a peer may send before it is known, and how a flood of one disturbs no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "transport/grpc/grpc_link.h"
#include "transport/limits.h"
#include "transport/link_testing.h"
#include "transport/receive_budget.h"
#include "transport/send_or_close.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

// The receiving end of one link: keeps frames until it is told to take them.
struct Receiver {
  std::shared_ptr<ReceiveBudget> budget;
  std::unique_ptr<Link> link;
  Mutex mutex;
  ConditionVariable changed;
  std::deque<ReceiveBudget::Unread> waiting ABSL_GUARDED_BY(mutex);
  int64_t taken ABSL_GUARDED_BY(mutex) = 0;
  int64_t most_waiting ABSL_GUARDED_BY(mutex) = 0;
  std::atomic<int> overflows{0};

  // Takes frames as they come, until `count` were taken.
  bool Take(int64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      std::deque<ReceiveBudget::Unread> now;
      {
        const MutexLock lock(&mutex);
        while (waiting.empty() && taken < count && changed.WaitUntil(&mutex, deadline)) continue;
        if (waiting.empty()) return taken >= count;
        most_waiting = std::max(most_waiting, static_cast<int64_t>(waiting.size()));
        taken += static_cast<int64_t>(waiting.size());
        now.swap(waiting);
      }
    }
  }
  bool WaitForWaiting(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex);
    while (waiting.size() < count && changed.WaitUntil(&mutex, deadline)) continue;
    return waiting.size() >= count;
  }
};

class BudgetHandler : public LinkHandler {
 public:
  explicit BudgetHandler(Receiver* receiver) : receiver_(receiver), budget_(receiver->budget) {}
  void OnFrame(v1::Frame frame, Payload payload) override {
    auto unread = budget_->Count(static_cast<int64_t>(frame.ByteSizeLong()) + payload.size());
    if (!unread.has_value()) {
      ++receiver_->overflows;
      return;
    }
    const MutexLock lock(&receiver_->mutex);
    receiver_->waiting.push_back(*std::move(unread));
    receiver_->changed.NotifyAll();
  }
  void OnClosed(absl::Status) override {}
  std::shared_ptr<ReceiveBudget> budget() override { return budget_; }

 private:
  Receiver* const receiver_;
  const std::shared_ptr<ReceiveBudget> budget_;
};

class BudgetTest : public testing::Test {
 protected:
  BudgetTest() {
    auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, [this](std::unique_ptr<Link> link) {
      const MutexLock lock(&mutex_);
      Receiver& receiver = *receivers_.emplace_back(std::make_unique<Receiver>());
      receiver.budget = ReceiveBudget::OfStranger();
      receiver.link = std::move(link);
      changed_.NotifyAll();
      return std::make_unique<BudgetHandler>(&receiver);
    });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    dialer_ = *GrpcDialer::Create();
  }
  ~BudgetTest() override {
    server_->Stop();
    dialer_.reset();
  }

  // Lives until no handler uses it any more.
  Inbox& NewInbox() { return inboxes_.emplace_back(); }

  // The receiver of the link dialled as the `index`-th.
  Receiver& WaitForReceiver(size_t index) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (receivers_.size() <= index && changed_.WaitUntil(&mutex_, deadline)) continue;
    return *receivers_.at(index);
  }

  std::deque<Inbox> inboxes_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<Receiver>> receivers_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
};

TEST_F(BudgetTest, AStrangersFloodIsOneFrameAndAKnownPeersWaits) {
  constexpr int64_t kFrames = 20'000;
  Inbox& inbox = NewInbox();
  const auto link = dialer_->Dial(server_->address(), inbox.MakeHandler());
  for (int64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(link->Send(NumberedFrame(1)).ok());
  Receiver& receiver = WaitForReceiver(0);
  ASSERT_TRUE(receiver.WaitForWaiting(1));
  // Another link works meanwhile, so what the first had sent would be here.
  Inbox& other_inbox = NewInbox();
  const auto other = dialer_->Dial(server_->address(), other_inbox.MakeHandler());
  ASSERT_TRUE(other->Send(NumberedFrame(1)).ok());
  ASSERT_TRUE(WaitForReceiver(1).WaitForWaiting(1));
  {
    const MutexLock lock(&receiver.mutex);
    EXPECT_EQ(receiver.waiting.size(), 1u);
  }
  // Once it is known, all arrive: back-pressure loses nothing.
  receiver.budget->MarkKnown({.frames = 100});
  EXPECT_TRUE(receiver.Take(kFrames));
  EXPECT_EQ(receiver.overflows, 0);
  {
    const MutexLock lock(&receiver.mutex);
    EXPECT_LE(receiver.most_waiting, 100);
  }
  EXPECT_FALSE(inbox.is_closed()) << inbox.closed();
}

TEST_F(BudgetTest, ALinkThatIsNotReadStillClosesInGoodOrder) {
  for (const bool is_dialer : {true, false}) {
    Inbox& inbox = NewInbox();
    auto link = dialer_->Dial(server_->address(), inbox.MakeHandler());
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(link->Send(NumberedFrame(1)).ok());
    Receiver& receiver = WaitForReceiver(is_dialer ? 0 : 1);
    ASSERT_TRUE(receiver.WaitForWaiting(1));
    if (is_dialer) {
      link->Close(absl::AbortedError("enough"));
    } else {
      receiver.link->Close(absl::AbortedError("enough"));
    }
    ASSERT_TRUE(inbox.WaitForClosed());
    EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kAborted) << inbox.closed();
    ASSERT_TRUE(inbox.WaitForHandlerGone());
  }
}

TEST_F(BudgetTest, AStrangersFirstFrameIsSmall) {
  for (const bool is_known : {false, true}) {
    Inbox& inbox = NewInbox();
    const auto link = dialer_->Dial(server_->address(), inbox.MakeHandler());
    if (is_known) WaitForReceiver(1).budget->MarkKnown();
    ASSERT_TRUE(link->Send(NumberedFrame(1), OwnedPayload(kStrangerFrameBytesMax)).ok());
    if (is_known) {
      EXPECT_TRUE(WaitForReceiver(1).WaitForWaiting(1));
    } else {
      ASSERT_TRUE(inbox.WaitForClosed());
      EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(inbox.closed().message()), HasSubstr("before hello"));
    }
  }
}

TEST_F(BudgetTest, TheOldestStrangerMakesWayAndNoKnownPeer) {
  std::vector<Inbox*> inboxes;
  std::vector<std::unique_ptr<Link>> links;
  for (int64_t i = 0; i < kStrangersMax + 2; ++i) {
    inboxes.push_back(&NewInbox());
    links.push_back(dialer_->Dial(server_->address(), inboxes.back()->MakeHandler()));
    Receiver& receiver = WaitForReceiver(static_cast<size_t>(i));
    if (i == 0) receiver.budget->MarkKnown();
  }
  ASSERT_TRUE(inboxes[1]->WaitForClosed());
  EXPECT_EQ(inboxes[1]->closed().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(inboxes[0]->is_closed());
  EXPECT_FALSE(inboxes[2]->is_closed());
  EXPECT_FALSE(inboxes.back()->is_closed());
  links.clear();
  for (Inbox* const inbox : inboxes) EXPECT_TRUE(inbox->WaitForHandlerGone());
}

TEST_F(BudgetTest, AFrameThatCannotBeSentEndsTheLinkAloud) {
  Inbox& inbox = NewInbox();
  const auto link = dialer_->Dial(server_->address(), inbox.MakeHandler());
  v1::Frame frame;
  frame.mutable_step_plan()->mutable_new_sequences();
  frame.mutable_failure()->set_message(std::string(kMessageBytesMax, 'x'));
  EXPECT_EQ(SendOrClose(link.get(), frame).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(inbox.WaitForClosed());
  EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(inbox.closed().message()), HasSubstr("could not be sent"));
  EXPECT_EQ(SendOrClose(link.get(), NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti::transport
