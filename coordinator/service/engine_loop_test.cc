// The loop's own time: what happens to its workers when its thread stood still.
#include "coordinator/service/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"
#include "coordinator/service/null_sink_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::seconds;

// The machine's clock, and what the test adds.
class JumpingClock : public Clock {
 public:
  Instant Now() const override {
    return std::chrono::steady_clock::now() + Duration(added_.load());
  }
  void Jump(Duration by) { added_ += by.count(); }

 private:
  std::atomic<int64_t> added_{0};
};

class NullLink : public transport::Link {
 public:
  absl::Status Send(v1::Frame, transport::Payload) override { return absl::OkStatus(); }
  void Close(absl::Status) override {}
  transport::LinkStats stats() const override { return {}; }
  std::string peer() const override { return "test"; }
};

class EngineLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    Make();
    loop_->Start();
  }
  void Make() {
    EngineOptions options = TinyEngineOptions(2);
    options.lease = seconds(20);  // the test itself may be slow
    loop_ = std::make_unique<EngineLoop>(options, &clock_, &sink_);
  }
  std::unique_ptr<transport::LinkHandler> Connect() {
    return loop_->acceptor()(std::make_unique<NullLink>());
  }
  static void SayHello(transport::LinkHandler* worker) {
    v1::Frame frame;
    *frame.mutable_hello() = TinyHello("w1");
    worker->OnFrame(std::move(frame), {});
  }
  // The number of workers that have joined and are heard of.
  int Workers() {
    std::promise<int> workers;
    loop_->GetStatus([&](const v1::GetStatusResponse& status) {
      workers.set_value(status.idle_workers_size());
    });
    return workers.get_future().get();
  }

  JumpingClock clock_;
  NullSink sink_;
  std::unique_ptr<EngineLoop> loop_;
};

TEST_F(EngineLoopTest, AWorkerIsNotLostBecauseTheLoopStoodStill) {
  const auto worker = Connect();
  SayHello(worker.get());
  ASSERT_EQ(Workers(), 1);
  clock_.Jump(seconds(40));
  EXPECT_EQ(Workers(), 1);
  EXPECT_EQ(Workers(), 1) << "nor when it has looked at its leases";
}

// In steps that are no stalls of the loop's own.
TEST_F(EngineLoopTest, AWorkerWhoseFramesLieUnreadIsNotLostForThatAndNotHiddenForEver) {
  constexpr auto kStep = std::chrono::milliseconds(100);
  const auto worker = Connect();
  SayHello(worker.get());
  for (int i = 0; i < 290; ++i) {
    clock_.Jump(kStep);
    loop_->TellUnread(kStep);
    ASSERT_EQ(Workers(), 1) << "after " << i << " steps";
  }
  for (int i = 0; i < 300; ++i) {
    clock_.Jump(kStep);
    loop_->TellUnread(kStep);
    Workers();
  }
  EXPECT_EQ(Workers(), 0);
}

TEST(StallAllowanceTest, AShareOfTheTimeComesBack) {
  StallAllowance allowance;
  Instant now{};
  EXPECT_EQ(allowance.Take(seconds(7), now), seconds(7));
  EXPECT_EQ(allowance.Take(seconds(7), now), kUnreadForgivenMax - seconds(7));
  EXPECT_EQ(allowance.Take(seconds(7), now += seconds(20)), seconds(20) / kUnreadForgivenShare);
  EXPECT_EQ(allowance.Take(seconds(70), now += seconds(1000)), kUnreadForgivenMax);
}

TEST_F(EngineLoopTest, TheStatusTellsWhoWasTurnedAwayAndWhy) {
  const auto worker = Connect(), namesake = Connect(), stranger = Connect();
  SayHello(worker.get());
  SayHello(namesake.get());
  v1::Frame no_hello;
  no_hello.mutable_beat();
  stranger->OnFrame(std::move(no_hello), {});
  loop_->TellRefused("ipv4:10.0.0.7:1", "", absl::UnauthenticatedError("no proof"));
  std::promise<v1::GetStatusResponse> told;
  loop_->GetStatus([&](v1::GetStatusResponse now) { told.set_value(std::move(now)); });
  const v1::GetStatusResponse status = told.get_future().get();
  ASSERT_EQ(status.refused_peers_size(), 3);
  std::multiset<std::string> ids, reasons;
  for (const v1::RefusedPeer& peer : status.refused_peers()) {
    ids.insert(peer.worker_id());
    reasons.insert(peer.reason());
  }
  EXPECT_EQ(ids, (std::multiset<std::string>{"", "", "w1"}));
  EXPECT_TRUE(reasons.contains("no proof"));
}

// All of it in one turn of the loop: what the turn decides, the answer has seen.
TEST_F(EngineLoopTest, TheStatusHasSeenTheWholeTurn) {
  Make();
  const auto worker = Connect(), namesake = Connect();
  std::promise<v1::GetStatusResponse> told;
  loop_->GetStatus([&](v1::GetStatusResponse now) { told.set_value(std::move(now)); });
  SayHello(worker.get());
  SayHello(namesake.get());
  loop_->Start();
  const v1::GetStatusResponse status = told.get_future().get();
  EXPECT_EQ(status.idle_workers_size(), 1);
  EXPECT_EQ(status.refused_peers_size(), 1);
}

// Counts what is sent over it.
class CountingLink : public NullLink {
 public:
  explicit CountingLink(std::atomic<int>* sent) : sent_(sent) {}
  absl::Status Send(v1::Frame, transport::Payload) override {
    ++*sent_;
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const sent_;
};

class LeaseSink : public NullSink {
 public:
  void OnLeaseOver() override { ++over; }
  std::atomic<int> over{0};
};

TEST_F(EngineLoopTest, AfterItsLeaseItCommandsNobody) {
  LeaseTime lease;
  LeaseSink sink;
  EngineLoop loop(TinyEngineOptions(1), &clock_, &sink, &lease);
  loop.Start();
  std::atomic<int> sent = 0;
  const auto connect = [&](const std::string& id) {
    auto worker = loop.acceptor()(std::make_unique<CountingLink>(&sent));
    v1::Frame frame;
    *frame.mutable_hello() = TinyHello(id);
    worker->OnFrame(std::move(frame), {});
    for (int i = 0; i < 2; ++i) {
      std::promise<void> turned;
      loop.GetStatus([&](const v1::GetStatusResponse&) { turned.set_value(); });
      turned.get_future().get();
    }
    return worker;
  };
  lease.Set(clock_.Now() + seconds(1000));
  loop.Lead({.incarnation = 7, .judged = true});
  const auto first = connect("w1");
  const int before = sent;
  EXPECT_GE(before, 2) << "a welcome and a shard";
  EXPECT_EQ(sink.over, 0);
  // The process stood still for longer than its lease.
  clock_.Jump(seconds(1001));
  const auto second = connect("w2");
  EXPECT_EQ(sent, before);
  EXPECT_GE(sink.over, 1);
  loop.Stop();
}

TEST_F(EngineLoopTest, ALinkIsNotSilentBecauseTheLoopStoodStill) {
  const auto worker = Connect();
  ASSERT_EQ(Workers(), 0);
  clock_.Jump(seconds(40));
  ASSERT_EQ(Workers(), 0);
  SayHello(worker.get());
  EXPECT_EQ(Workers(), 1);
}

}  // namespace
}  // namespace tutti::coordinator
