#include "door/door.h"

#include <utility>

#include "base/retry_delay.h"

namespace tutti::door {
namespace {

// A door that is full empties within a step or two, or with the next prompt that is tokenized.
constexpr Duration kComeBackAfter = std::chrono::seconds(1);

}  // namespace

Door::Door(const DoorOptions& chosen, std::function<void()> trim)
    : options(chosen), trimmer(std::move(trim)), budget(chosen.bytes) {
  budget.OnDrained([this] { trimmer.Wake(); });
}

absl::Status Overloaded(std::string_view what) {
  return WithRetryDelay(absl::ResourceExhaustedError(absl::string_view(what.data(), what.size())),
                        kComeBackAfter);
}

absl::Status OutOfMemory() { return Overloaded("the service has no memory left for this request"); }

}  // namespace tutti::door
