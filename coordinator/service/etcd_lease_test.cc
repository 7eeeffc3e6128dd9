// The lease over an etcd that a test plays, with a clock that it moves. The real one is in
// tests/faults.
#include "coordinator/service/etcd_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kSeconds = 4;

// One etcd for several coordinators.
struct FakeEtcd {
  explicit FakeEtcd(const ManualClock* clock) : clock(clock) {}
  void Expire() {
    std::erase_if(leases, [&](const auto& lease) { return lease.second <= clock->Now(); });
    if (leader.has_value() && !leases.contains(leader->lease)) leader.reset();
  }
  const ManualClock* const clock;
  std::map<int64_t, Instant> leases;  // by id: the end
  std::optional<EtcdView::Leader> leader;
  uint32_t number = 0;
  int64_t revision = 0;
  int64_t last_lease = 100;
};

class FakeCalls : public EtcdCalls {
 public:
  FakeCalls(FakeEtcd* etcd, ManualClock* clock) : etcd_(etcd), clock_(clock) {}

  absl::StatusOr<EtcdView> Look(Duration) override {
    if (!answers.ok()) return answers;
    etcd_->Expire();
    return EtcdView{etcd_->leader, etcd_->number, etcd_->revision};
  }
  absl::StatusOr<int64_t> Grant(int64_t wanted, Duration) override {
    if (!answers.ok()) return answers;
    etcd_->leases[++etcd_->last_lease] = clock_->Now() + seconds(wanted);
    clock_->Advance(answer_time);
    return etcd_->last_lease;
  }
  absl::StatusOr<int64_t> KeepAlive(int64_t lease, Duration patience) override {
    last_patience = patience;
    if (!answers.ok()) return answers;
    etcd_->Expire();
    if (!etcd_->leases.contains(lease)) return absl::NotFoundError("gone");
    etcd_->leases[lease] = clock_->Now() + seconds(kSeconds);
    clock_->Advance(answer_time);
    return kSeconds;
  }
  absl::Status Revoke(int64_t lease, Duration) override {
    if (!answers.ok()) return answers;
    const bool there = etcd_->leases.erase(lease) > 0;
    etcd_->Expire();
    return there ? absl::OkStatus() : absl::NotFoundError("gone");
  }
  absl::StatusOr<bool> Campaign(const EtcdView& view, const EtcdView::Leader& self,
                                Duration) override {
    if (before_campaign != nullptr) before_campaign();
    etcd_->Expire();
    if (etcd_->leader.has_value() || view.last_number_revision != etcd_->revision) return false;
    etcd_->leader = self;
    etcd_->number = self.number;
    ++etcd_->revision;
    if (std::exchange(loses_an_answer, false)) return absl::DeadlineExceededError("no answer");
    return true;
  }

  absl::Status answers;
  Duration answer_time{};
  Duration last_patience{};
  bool loses_an_answer = false;
  std::function<void()> before_campaign;

 private:
  FakeEtcd* const etcd_;
  ManualClock* const clock_;
};

class FakeSight : public LeaderSight {
 public:
  explicit FakeSight(const std::string* ended) : ended_(ended) {}
  bool HasEnded(const std::string& name, int64_t) override { return name == *ended_; }

 private:
  const std::string* const ended_;
};

class EtcdLeaseTest : public testing::Test {
 protected:
  struct Candidate {
    FakeCalls* calls;
    std::unique_ptr<EtcdLease> lease;
    uint32_t TryAcquire() const {
      const auto number = lease->TryAcquire();
      EXPECT_TRUE(number.ok()) << number.status();
      return number.ok() ? number->value_or(0) : 0;
    }
    bool Commands(const Clock& clock) const { return lease->time().Holds(clock.Now()); }
  };
  Candidate Make(const std::string& name) {
    auto calls = std::make_unique<FakeCalls>(&etcd_, &clock_);
    FakeCalls* const raw = calls.get();
    return {raw,
            std::make_unique<EtcdLease>(
                EtcdLease::Options{
                    .name = name, .about = "etcd", .seconds = kSeconds, .now = [] { return 50; }},
                std::move(calls), std::make_unique<FakeSight>(&ended_), &clock_)};
  }

  ManualClock clock_;
  FakeEtcd etcd_{&clock_};
  std::string ended_;  // whose process is known to have ended
  Candidate first_ = Make("c0"), second_ = Make("c1");
};

TEST_F(EtcdLeaseTest, OneLeadsAndTheNextHasALargerNumber) {
  EXPECT_EQ(first_.TryAcquire(), 50u) << "the seconds of the clock, for the first";
  EXPECT_EQ(second_.TryAcquire(), 0u);
  EXPECT_EQ(second_.lease->leader(), "c0");
  EXPECT_TRUE(first_.Commands(clock_));
  EXPECT_FALSE(second_.Commands(clock_));
  first_.lease->Resign();
  EXPECT_FALSE(first_.Commands(clock_));
  EXPECT_EQ(second_.TryAcquire(), 51u);
}

TEST_F(EtcdLeaseTest, NobodyElseLeadsWhileALeaderMayCommand) {
  first_.calls->answer_time = milliseconds(300);
  ASSERT_NE(first_.TryAcquire(), 0u);
  for (int renewals = 0; renewals < 3; ++renewals) {
    clock_.Advance(seconds(1));
    EXPECT_EQ(first_.lease->Keep(), absl::OkStatus());
  }
  first_.calls->answers = absl::UnavailableError("cut off");
  uint32_t taken = 0;
  Instant last_command{};
  for (int i = 0; i < 100 && taken == 0; ++i, clock_.Advance(milliseconds(100))) {
    EXPECT_FALSE(first_.lease->Keep().ok());
    if (first_.Commands(clock_)) last_command = clock_.Now();
    taken = second_.TryAcquire();
    EXPECT_FALSE(taken != 0 && first_.Commands(clock_));
  }
  EXPECT_EQ(taken, 51u);
  EXPECT_LT(last_command + kLeaseMargin / 2, clock_.Now());
}

TEST_F(EtcdLeaseTest, ARenewalIsNotWaitedForLongerThanTheLeaseHolds) {
  ASSERT_NE(first_.TryAcquire(), 0u);
  clock_.Set(first_.lease->time().until() - milliseconds(20));
  first_.calls->answers = absl::DeadlineExceededError("slow");
  EXPECT_FALSE(first_.lease->Keep().ok());
  EXPECT_EQ(first_.calls->last_patience, milliseconds(20));
}

TEST_F(EtcdLeaseTest, ALeaseThatEtcdHasEndedIsLost) {
  ASSERT_NE(first_.TryAcquire(), 0u);
  etcd_.leases.clear();
  EXPECT_EQ(first_.lease->Keep().code(), absl::StatusCode::kAborted);
}

TEST_F(EtcdLeaseTest, ALeaderWhoseProcessHasEndedIsReplacedAtOnce) {
  ASSERT_EQ(first_.TryAcquire(), 50u);
  EXPECT_EQ(second_.TryAcquire(), 0u);
  ended_ = "c0";
  EXPECT_EQ(second_.TryAcquire(), 51u);
  // It was alive after all: it learns so at its next renewal.
  EXPECT_EQ(first_.lease->Keep().code(), absl::StatusCode::kAborted);
}

TEST_F(EtcdLeaseTest, OfTwoThatCampaignAtOnceOneLeads) {
  second_.calls->before_campaign = [this] { EXPECT_EQ(first_.TryAcquire(), 50u); };
  EXPECT_EQ(second_.TryAcquire(), 0u);
  EXPECT_EQ(etcd_.leases.size(), 1u) << "the loser keeps no lease";
  second_.calls->before_campaign = nullptr;
  EXPECT_EQ(second_.TryAcquire(), 0u);
  EXPECT_TRUE(first_.Commands(clock_));
}

TEST_F(EtcdLeaseTest, ACampaignWhoseAnswerWasLostIsFoundToBeWon) {
  first_.calls->loses_an_answer = true;
  EXPECT_FALSE(first_.lease->TryAcquire().ok());
  EXPECT_FALSE(first_.Commands(clock_));
  EXPECT_EQ(first_.TryAcquire(), 50u);
  EXPECT_TRUE(first_.Commands(clock_));
}

TEST(NextIncarnationTest, GrowsWhateverTheClockSays) {
  EXPECT_EQ(*NextIncarnation(0, 1790000000), 1790000000u);
  EXPECT_EQ(*NextIncarnation(1790000000, 1790000000), 1790000001u);
  EXPECT_EQ(*NextIncarnation(1790000000, 5), 1790000001u) << "the clock went back";
  EXPECT_EQ(*NextIncarnation(7, -1), 8u);
  EXPECT_EQ(*NextIncarnation(7, int64_t{1} << 40), 4294967294u);
  EXPECT_EQ(NextIncarnation(4294967294u, 5).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace tutti::coordinator
