#include "worker/fetch/weights_talk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/mutex.h"
#include "transport/inproc_link.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using std::chrono::seconds;

// The machine's time, and what a test adds.
class ShiftedClock : public Clock {
 public:
  Instant Now() const override { return system_.Now() + Duration(shift_.load()); }
  void Advance(Duration step) { shift_ += step.count(); }

 private:
  const SystemClock system_;
  std::atomic<int64_t> shift_{0};
};

// A coordinator that says nothing but what a test has it say.
class Coordinator {
 public:
  transport::AcceptCallback acceptor() {
    return [this](std::unique_ptr<transport::Link> link) {
      return std::make_unique<Handler>(this, std::move(link));
    };
  }
  bool asked() const { return asked_; }
  bool may_send_beats() const { return may_send_beats_; }
  void Say(v1::Frame frame) {
    const MutexLock lock(&mutex_);
    EXPECT_TRUE(link_->Send(std::move(frame), {}).ok());
  }

 private:
  class Handler : public transport::LinkHandler {
   public:
    Handler(Coordinator* owner, std::unique_ptr<transport::Link> link) : owner_(owner) {
      const MutexLock lock(&owner_->mutex_);
      owner_->link_ = std::move(link);
    }
    void OnFrame(v1::Frame frame, transport::Payload) override {
      if (!frame.has_hello()) {
        owner_->asked_ = true;
        return;
      }
      owner_->may_send_beats_ = frame.hello().takes_beats();
      v1::Frame welcome;
      welcome.mutable_welcome();
      owner_->Say(std::move(welcome));
    }
    void OnClosed(absl::Status) override {}

   private:
    Coordinator* const owner_;
  };

  std::atomic<bool> asked_{false}, may_send_beats_{false};
  Mutex mutex_;
  std::unique_ptr<transport::Link> link_ ABSL_GUARDED_BY(mutex_);
};

struct WeightsTalkTest : testing::Test {
  WeightsTalkTest() { EXPECT_TRUE(network.Listen("coordinator", coordinator.acceptor()).ok()); }

  // One question, of which the coordinator says `pending` times that it waits, 10 s after each
  // other, and then the answer.
  absl::Status Ask(int pending) {
    WeightsTalk talk(
        {.dialer = dialer.get(), .addresses = {"coordinator"}, .hello = {}, .clock = &clock});
    WeightsTalk::Exchange exchange;
    exchange.count = 1;
    exchange.question = [](size_t) {
      v1::Frame frame;
      frame.mutable_files_wanted();
      return frame;
    };
    exchange.take = [this](size_t, const WeightsLink::Answer& answer) {
      ++answers;
      EXPECT_TRUE(answer.frame.has_checkpoint_files());
      return WeightsTalk::Taken::kYes;
    };
    // Called once before each wait for a frame.
    return talk.Run(exchange, kFetchPatience, [this, &pending] {
      if (!coordinator.asked()) return absl::OkStatus();
      clock.Advance(seconds(10));
      v1::Frame frame;
      if (--pending >= 0) {
        frame.mutable_beat();
      } else {
        frame.mutable_checkpoint_files();
      }
      coordinator.Say(std::move(frame));
      return absl::OkStatus();
    });
  }

  ShiftedClock clock;
  Coordinator coordinator;
  transport::InprocNetwork network;
  std::unique_ptr<transport::Dialer> dialer = network.MakeDialer();
  int answers = 0;
};

TEST_F(WeightsTalkTest, WhoIsToldThatItWaitsForItsTurnIsPatient) {
  const absl::Status status = Ask(20);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(answers, 1);
  EXPECT_TRUE(coordinator.may_send_beats());
}

// Whatever keeps the coordinator from saying anything.
TEST_F(WeightsTalkTest, SilenceEndsIt) {
  WeightsTalk talk(
      {.dialer = dialer.get(), .addresses = {"coordinator"}, .hello = {}, .clock = &clock});
  WeightsTalk::Exchange exchange;
  exchange.count = 1;
  exchange.question = [](size_t) {
    v1::Frame frame;
    frame.mutable_files_wanted();
    return frame;
  };
  const absl::Status status = talk.Run(exchange, kFetchPatience, [this] {
    if (coordinator.asked()) clock.Advance(seconds(16));
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("answered nothing for 15 s"));
}

}  // namespace
}  // namespace tutti::worker
