#include "door/door.h"

#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "spdlog/spdlog.h"

namespace tutti::door {
namespace {

// A door that is full empties within a step or two, or with the next prompt that is tokenized.
constexpr Duration kComeBackAfter = std::chrono::seconds(1);

// How long this thread has waited in a row.
thread_local Instant waits_since{};
thread_local Instant waited_at{};

void OnNoMemory() {
  const Instant now = SystemClock().Now();
  if (now - waited_at > 10 * kMemoryPause) waits_since = now;
  if (MemoryScope::IsInside() || now - waits_since > kMemoryWaitMax) throw std::bad_alloc();
  std::this_thread::sleep_for(kMemoryPause);
  waited_at = SystemClock().Now();
}

}  // namespace

void WaitForMemory() { std::set_new_handler(OnNoMemory); }

absl::Status Overloaded(std::string_view what) {
  return WithRetryDelay(absl::ResourceExhaustedError(absl::string_view(what.data(), what.size())),
                        kComeBackAfter);
}

absl::Status OutOfMemory() { return Overloaded("the service has no memory left for this request"); }

absl::Status Unforeseen(const std::exception& fault) {
  spdlog::error("a request met a fault of this program, and has ended: {}", fault.what());
  return absl::InternalError(
      absl::StrCat("this request met a fault of the service: ", fault.what()));
}

}  // namespace tutti::door
