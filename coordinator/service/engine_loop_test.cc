// The loop's own time: what happens to its workers when its thread stood still.
#include "coordinator/service/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "coordinator/engine_testing.h"

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

class NullSink : public EngineSink {
 public:
  void OnTokens(DeliverTokens) override {}
  void OnFinish(FinishRequest) override {}
  void OnServing(bool, const std::string&) override {}
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
    EngineOptions options = TinyEngineOptions(2);
    options.lease = seconds(20);  // the test itself may be slow
    loop_ = std::make_unique<EngineLoop>(options, &clock_, &sink_);
    loop_->Start();
  }
  std::unique_ptr<transport::LinkHandler> Connect() {
    return loop_->acceptor()(std::make_unique<NullLink>());
  }
  static void SayHello(transport::LinkHandler* worker) {
    v1::Frame frame;
    *frame.mutable_hello() = TinyHello("w1");
    worker->OnFrame(std::move(frame), {});
  }
  // Of workers that have joined and are heard of.
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
