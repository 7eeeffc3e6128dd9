#include "tests/support/sim_mailbox.h"

#include <algorithm>

namespace tutti::tests {

using std::chrono::milliseconds;

void SimMailbox::ScheduleStalls() {
  for (int32_t i = 0; i < options_->stalls; ++i) {
    queue_->After(milliseconds(random_.Between(5, 3000)),
                  [this] { Stall(milliseconds(random_.Between(300, 8000))); });
  }
}

void SimMailbox::Post(coordinator::Event event) {
  (reads_late_ ? late_ : items_).push_back(std::move(event));
}

void SimMailbox::Stall(Duration how_long) {
  if (stalled()) return;
  stalls_.emplace_back(queue_->now(), how_long);
  stalled_until_ = queue_->now() + how_long;
  queue_->At(stalled_until_, [this, how_long] { GoOn(how_long); });
}

void SimMailbox::GoOn(Duration stalled) {
  late_ = Drain();
  items_.push_back(coordinator::Stalled{stalled});
  reads_late_ = true;
  wake_();
  queue_->After(milliseconds(random_.Between(1, 50)), [this] {
    for (coordinator::Event& event : late_) items_.push_back(std::move(event));
    late_.clear();
    reads_late_ = false;
    wake_();
  });
}

Duration SimMailbox::StalledSince(Instant time) const {
  Duration sum{};
  for (const auto& [begin, how_long] : stalls_) {
    const Instant end = std::min(queue_->now(), begin + how_long);
    sum += std::max(Duration(), end - std::max(begin, time));
  }
  return sum;
}

}  // namespace tutti::tests
