#include "kernels/cuda/call_watchdog.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/thread.h"

namespace tutti::kernels::cuda {
namespace {

// Calls come thousands of times a second and nearly always return at once, so they do not wake the
// watching thread; it looks this many times within the patience.
constexpr int kLooks = 8;

}  // namespace

CallWatchdog::CallWatchdog(Duration patience) : patience_(patience) {
  thread_ = StartThread("the watchdog of NCCL's calls", [this] { Watch(); });
}

CallWatchdog::~CallWatchdog() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

absl::Status CallWatchdog::Run(const char* name, const std::function<absl::Status()>& call,
                               const std::function<void()>& give_up) {
  {
    MutexLock lock(&mutex_);
    deadline_ = SystemClock().Now() + patience_;
    give_up_ = &give_up;
    expired_ = false;
  }
  const absl::Status status = call();
  MutexLock lock(&mutex_);
  deadline_ = kInstantNever;
  give_up_ = nullptr;
  if (!expired_) return status;
  return absl::DeadlineExceededError(
      absl::StrCat(name, " did not return within ", Milliseconds(patience_), " ms and was given up",
                   status.ok() ? "" : ": ", std::string(status.message())));
}

// Gives up with the lock held: Run cannot end, and no other call can begin, before it is done.
void CallWatchdog::Watch() {
  MutexLock lock(&mutex_);
  while (!stop_) {
    if (SystemClock().Now() >= deadline_ && !expired_) {
      expired_ = true;
      (*give_up_)();
    }
    changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + patience_ / kLooks);
  }
}

}  // namespace tutti::kernels::cuda
