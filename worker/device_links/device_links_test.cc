// Device links of a chain of workers: founding, when rows may pass, memory, deadlines, blame.
#include "worker/device_links/device_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "worker/device_links/device_links_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSlotBytes = 64;

// Every look at it takes a moment.
class TickingClock : public Clock {
 public:
  Instant Now() const override { return now_ += std::chrono::microseconds(20); }
  void Advance(Duration step) { now_ += step; }

 private:
  mutable Instant now_{};
};

// One worker of the chain, with two slots on either side.
struct Worker {
  Worker(const std::string& id, TestLinkDevices* devices, const Clock* clock,
         DeviceLinks::Wait wait, kernels::DeviceExchangeScope scope)
      : memory(4 * kSlotBytes),
        links({.new_link = [devices] { return devices->NewLink(); }, .scope = scope}, id, clock,
              std::move(wait)) {}

  void Begin(const std::string& previous, const std::vector<std::string>& next) {
    const std::span all(memory);
    const auto slot = [&](int64_t i) { return all.subspan(i * kSlotBytes, kSlotBytes); };
    links.Begin(previous, next, {.in = {slot(0), slot(1)}, .out = {slot(2), slot(3)}});
  }
  // Sends one number in place of rows.
  absl::Status SendNumber(int32_t number) {
    TUTTI_ASSIGN_OR_RETURN(std::byte* const slot, links.AcquireSlot());
    if (slot == nullptr) return absl::UnavailableError("over the link");
    std::memcpy(slot, &number, sizeof(number));
    return links.Send(sizeof(number));
  }
  absl::StatusOr<int32_t> ReceiveNumber() {
    TUTTI_ASSIGN_OR_RETURN(std::byte* const slot, links.Await());
    int32_t number = 0;
    std::memcpy(&number, slot, sizeof(number));
    links.Release();
    return number;
  }

  std::vector<std::byte> memory;
  DeviceLinks links;
};

class DeviceLinksTest : public ::testing::Test {
 protected:
  std::unique_ptr<Worker> Make(const std::string& id, kernels::DeviceExchangeScope scope =
                                                          kernels::DeviceExchangeScope::kMachine) {
    // Time passes while a worker waits.
    const auto wait = [this](Instant) {
      clock_.Advance(std::chrono::milliseconds(10));
      return wait_status_;
    };
    return std::make_unique<Worker>(id, &devices_, &clock_, wait, scope);
  }
  // Hello and welcome of the link to `from`'s next worker i.
  static void Greet(Worker& from, size_t i, Worker& to) {
    from.links.HandleAnswer(i, to.links.AnswerToPrevious(from.links.DescriptionFor(i)));
  }
  // Lets both look until nothing changes, and passes the word on.
  void FormGroup(Worker& from, size_t i, Worker& to) {
    for (int round = 0; round < 4; ++round) {
      (void)from.links.Tick(clock_.Now());
      if (to.links.Tick(clock_.Now())) from.links.HandleUp(i);
    }
  }
  // w0 feeds w1, linked.
  void Chain() {
    a_ = Make("w0");
    b_ = Make("w1");
    a_->Begin("", {"w1"});
    b_->Begin("w0", {});
    Greet(*a_, 0, *b_);
    FormGroup(*a_, 0, *b_);
  }

  TestLinkDevices devices_;
  TickingClock clock_;
  absl::Status wait_status_;
  std::unique_ptr<Worker> a_, b_;
};

TEST_F(DeviceLinksTest, RowsPassOnceBothEndsStandAndTheSenderKnows) {
  a_ = Make("w0");
  b_ = Make("w1");
  a_->Begin("", {"w1"});
  b_->Begin("w0", {});
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr) << "before hello";
  Greet(*a_, 0, *b_);
  EXPECT_EQ(devices_.founded(), 1);
  EXPECT_FALSE(b_->links.Tick(clock_.Now())) << "the other has not joined";
  EXPECT_LT(b_->links.next_wake(clock_.Now()), kInstantNever);
  EXPECT_FALSE(a_->links.Tick(clock_.Now())) << "who sends tells nobody";
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr) << "w1 has not said that it stands";
  EXPECT_TRUE(b_->links.Tick(clock_.Now()));
  a_->links.HandleUp(0);
  EXPECT_EQ(b_->links.next_wake(clock_.Now()), kInstantNever);

  for (int32_t number = 100; number < 110; ++number) {
    ASSERT_TRUE(a_->SendNumber(number).ok());
    ASSERT_TRUE(b_->links.Expect(4).ok());
    EXPECT_EQ(*b_->ReceiveNumber(), number);
  }
  EXPECT_EQ(devices_.transfers(), 10);
}

TEST_F(DeviceLinksTest, WhenAllMemoryIsOnItsWayRowsGoOverTheLink) {
  Chain();
  ASSERT_TRUE(a_->SendNumber(1).ok());
  ASSERT_TRUE(a_->SendNumber(2).ok());
  EXPECT_EQ(a_->SendNumber(3).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(b_->links.Expect(4).ok());
  EXPECT_EQ(*b_->ReceiveNumber(), 1);
  EXPECT_TRUE(a_->SendNumber(3).ok());
  // More may be announced than the receiver has memory for.
  ASSERT_TRUE(b_->links.Expect(4).ok());
  ASSERT_TRUE(b_->links.Expect(4).ok());
  EXPECT_EQ(*b_->ReceiveNumber(), 2);
  EXPECT_EQ(*b_->ReceiveNumber(), 3);
}

TEST_F(DeviceLinksTest, TheReceiverTakesOnlyAsManyAsItHasMemoryFor) {
  Chain();
  // The sender's memory is free as soon as the receiver has somewhere to put the rows.
  for (int32_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(b_->links.Expect(4).ok());
    const absl::Status sent = a_->SendNumber(number);
    ASSERT_TRUE(sent.ok()) << number << ": " << sent;
  }
  EXPECT_EQ(a_->SendNumber(5).code(), absl::StatusCode::kUnavailable);
  for (int32_t number = 1; number <= 4; ++number) EXPECT_EQ(*b_->ReceiveNumber(), number);
}

TEST_F(DeviceLinksTest, AllNextWorkersOrNone) {
  a_ = Make("w0");
  b_ = Make("w1");
  auto c = Make("w2");
  a_->Begin("", {"w1", "w2"});
  b_->Begin("w0", {});
  c->Begin("w0", {});
  Greet(*a_, 0, *b_);
  Greet(*a_, 1, *c);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(a_->SendNumber(1).code(), absl::StatusCode::kUnavailable);
  FormGroup(*a_, 1, *c);
  ASSERT_TRUE(a_->SendNumber(1).ok());
  for (Worker* worker : {b_.get(), c.get()}) {
    ASSERT_TRUE(worker->links.Expect(4).ok());
    EXPECT_EQ(*worker->ReceiveNumber(), 1);
  }
}

// Two groups that form at once could wait for each other inside the driver.
TEST_F(DeviceLinksTest, GroupsOfAChainFormOneAfterAnother) {
  devices_.set_joinable(false);
  a_ = Make("w0");
  b_ = Make("w1");
  auto c = Make("w2");
  a_->Begin("", {"w1"});
  b_->Begin("w0", {"w2"});
  c->Begin("w1", {});
  Greet(*b_, 0, *c);
  FormGroup(*b_, 0, *c);
  EXPECT_EQ(b_->links.next_wake(clock_.Now()), kInstantNever) << "w0 comes first";
  Greet(*a_, 0, *b_);
  FormGroup(*a_, 0, *b_);
  devices_.set_joinable(true);
  EXPECT_TRUE(b_->links.Tick(clock_.Now()));
  a_->links.HandleUp(0);
  EXPECT_EQ(devices_.standing(), 1 + 1) << "w1's end to w2 begins when that from w0 stands";
  FormGroup(*b_, 0, *c);
  EXPECT_EQ(devices_.standing(), 3);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(devices_.standing(), 4);
}

TEST_F(DeviceLinksTest, WhoCannotLinkPassesRowsThroughTheHost) {
  const auto try_to_link = [&] {
    Chain();
    return a_->SendNumber(1).ok();
  };
  devices_.set_why_not("w0 and w1 share a GPU");
  EXPECT_FALSE(try_to_link());
  EXPECT_EQ(devices_.founded(), 0) << "no group is founded that cannot be formed";
  devices_.set_why_not("");
  devices_.set_form_error(absl::UnavailableError("still waiting"));
  EXPECT_FALSE(try_to_link());
  devices_.set_form_error(absl::OkStatus());
  EXPECT_TRUE(try_to_link());
}

TEST_F(DeviceLinksTest, DevicesThatDoNotFindEachOtherAreNotWaitedFor) {
  devices_.set_joinable(false);
  Chain();
  clock_.Advance(kFormPatience + std::chrono::milliseconds(1));
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(devices_.left(), 2);
  EXPECT_EQ(b_->links.next_wake(clock_.Now()), kInstantNever);
  EXPECT_EQ(b_->links.Expect(4).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DeviceLinksTest, AWorkerMayWantNone) {
  a_ = Make("w0", kernels::DeviceExchangeScope::kOff);
  b_ = Make("w1");
  a_->Begin("", {"w1"});
  b_->Begin("w0", {});
  EXPECT_EQ(a_->links.DescriptionFor(0), "");
  Greet(*a_, 0, *b_);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(devices_.founded(), 0);
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr);
}

TEST_F(DeviceLinksTest, APeerThatDialsAgainStartsAgain) {
  a_ = Make("w0");
  b_ = Make("w1");
  a_->Begin("", {"w1"});
  b_->Begin("w0", {});
  (void)b_->links.AnswerToPrevious(a_->links.DescriptionFor(0));  // never seen
  EXPECT_FALSE(b_->links.Tick(clock_.Now()));
  Greet(*a_, 0, *b_);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(devices_.founded(), 2);
  EXPECT_TRUE(a_->SendNumber(1).ok());
}

TEST_F(DeviceLinksTest, AnEpochLeavesItsGroups) {
  Chain();
  ASSERT_TRUE(a_->SendNumber(1).ok());
  a_->links.End();
  b_->links.End();
  EXPECT_EQ(devices_.left(), 2);
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr);
  // The next one links anew, with nothing of the old one in it.
  a_->Begin("", {"w1"});
  b_->Begin("w0", {});
  Greet(*a_, 0, *b_);
  FormGroup(*a_, 0, *b_);
  ASSERT_TRUE(a_->SendNumber(2).ok());
  ASSERT_TRUE(b_->links.Expect(4).ok());
  EXPECT_EQ(*b_->ReceiveNumber(), 2);
}

TEST_F(DeviceLinksTest, RowsThatNeverComeHaveADeadlineAndASender) {
  Chain();
  devices_.set_stuck(true);
  ASSERT_TRUE(a_->SendNumber(1).ok());
  ASSERT_TRUE(b_->links.Expect(4).ok());
  const Instant begin = clock_.Now();
  const absl::Status status = b_->ReceiveNumber().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("device link from w0"));
  EXPECT_GE(clock_.Now() - begin, kTransferPatience + kBrokenLinkGrace);
  // Both hosts are well, so it would happen again: never on this worker's devices.
  devices_.set_stuck(false);
  b_->Begin("w0", {});
  a_->Begin("", {"w1"});
  Greet(*a_, 0, *b_);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr);
}

TEST_F(DeviceLinksTest, AnErrorIsBlamedOnlyIfTheEpochGoesOn) {
  Chain();
  devices_.set_broken(absl::InternalError("NCCL, in the background: remote process exited"));
  wait_status_ = absl::AbortedError("the epoch is over");
  EXPECT_EQ(a_->links.AcquireSlot().status().code(), absl::StatusCode::kAborted);
  wait_status_ = absl::OkStatus();
  const absl::Status status = a_->links.AcquireSlot().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("device link to w1"));
  EXPECT_THAT(status.message(), HasSubstr("remote process exited"));
}

TEST_F(DeviceLinksTest, TheEndOfTheEpochEndsTheWaitForRows) {
  Chain();
  devices_.set_stuck(true);
  ASSERT_TRUE(b_->links.Expect(4).ok());
  wait_status_ = absl::AbortedError("the epoch is over");
  EXPECT_EQ(b_->links.Await().status().code(), absl::StatusCode::kAborted);
}

TEST_F(DeviceLinksTest, AnyBytesMayBeAnswered) {
  a_ = Make("w0");
  b_ = Make("w1");
  a_->Begin("", {"w1"});
  b_->Begin("w0", {});
  EXPECT_EQ(b_->links.AnswerToPrevious("x"), "");
  EXPECT_EQ(b_->links.AnswerToPrevious(std::string(10'000, 'x')), "");
  a_->links.HandleAnswer(0, "short");
  a_->links.HandleAnswer(7, "nobody");
  a_->links.HandleUp(7);
  FormGroup(*a_, 0, *b_);
  EXPECT_EQ(*a_->links.AcquireSlot(), nullptr);
}

}  // namespace
}  // namespace tutti::worker
