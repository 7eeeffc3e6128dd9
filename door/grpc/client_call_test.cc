#include "door/grpc/client_call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace tutti::door {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct AlarmedCall {
  void First() { Count(&first); }
  void Second() { Count(&second); }
  static void Count(std::atomic<int>* count) {
    ++*count;
    count->notify_all();
  }

  std::atomic<int> first{0}, second{0};
  grpc::Alarm alarm;
};

// Waits until an alarm that is set now has run: what was due before it has run too.
void LetAlarmsRun() {
  const auto later = std::make_shared<AlarmedCall>();
  SetAlarm(&later->alarm, milliseconds(1), later, &AlarmedCall::First);
  later->first.wait(0);
}

// The first may have fired and not yet run when the second is set: it must not run what the second
// was set to, which would then run twice.
TEST(SetAlarm, RunsOnceWhatItWasSetTo) {
  for (int round = 0; round < 100; ++round) {
    const auto call = std::make_shared<AlarmedCall>();
    SetAlarm(&call->alarm, Duration::zero(), call, &AlarmedCall::First);
    const auto until = std::chrono::steady_clock::now() + microseconds(round);
    while (std::chrono::steady_clock::now() < until) {
    }
    SetAlarm(&call->alarm, Duration::zero(), call, &AlarmedCall::Second);
    call->second.wait(0);
    LetAlarmsRun();
    ASSERT_EQ(call->second, 1) << "round " << round;
    ASSERT_LE(call->first, 1) << "round " << round;
  }
}

TEST(SetAlarm, RunsNothingOfACallThatIsGone) {
  auto call = std::make_shared<AlarmedCall>();
  const std::weak_ptr<AlarmedCall> gone = call;
  SetAlarm(&call->alarm, seconds(100), call, &AlarmedCall::First);
  call.reset();
  EXPECT_TRUE(gone.expired()) << "its alarm keeps it";
}

TEST(SetAlarm, RunsNothingThatWasCancelled) {
  const auto call = std::make_shared<AlarmedCall>();
  SetAlarm(&call->alarm, milliseconds(1), call, &AlarmedCall::First);
  call->alarm.Cancel();
  LetAlarmsRun();
  EXPECT_LE(call->first, 1) << "it may have fired before";
  SetAlarm(&call->alarm, seconds(100), call, &AlarmedCall::Second);
  call->alarm.Cancel();
  LetAlarmsRun();
  EXPECT_EQ(call->second, 0);
}

}  // namespace
}  // namespace tutti::door
