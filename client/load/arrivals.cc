#include "client/load/arrivals.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti::client {
namespace {

constexpr uint64_t kArrivalStream = 6;

}  // namespace

Arrivals::Arrivals(ArrivalOptions options)
    : options_(std::move(options)),
      random_(options_.seed, kArrivalStream),
      free_(options_.concurrency) {
  Draw();
}

// Gaps of a Poisson process are exponential.
void Arrivals::Draw() {
  if (!options_.times.empty()) {
    if (popped_ < static_cast<int64_t>(options_.times.size())) {
      next_ = options_.times[static_cast<size_t>(popped_)];
    }
  } else if (options_.rate > 0) {
    const double gap_s = -std::log1p(-random_.Uniform()) / options_.rate;
    next_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(gap_s));
  }
}

bool Arrivals::exhausted() const {
  if (stopped_ || popped_ >= options_.chats) return true;
  const Duration at = options_.concurrency > 0 ? freed_ : next_;
  return options_.duration > Duration::zero() && at > options_.duration;
}

std::optional<Duration> Arrivals::Next() const {
  if (exhausted()) return std::nullopt;
  if (options_.concurrency == 0) return next_;
  if (free_ == 0) return std::nullopt;
  return freed_;
}

int64_t Arrivals::Pop() {
  const int64_t number = popped_++;
  if (options_.concurrency > 0) {
    --free_;
  } else {
    Draw();
  }
  return number;
}

void Arrivals::OnEnded(Duration now) {
  if (options_.concurrency == 0) return;
  ++free_;
  freed_ = std::max(freed_, now);
}

}  // namespace tutti::client
