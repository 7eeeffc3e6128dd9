#include "coordinator/requests/place_pace.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

// The share of the newest interval in the mean: some ten ends tell a new pace.
constexpr int kNewestShare = 8;
// Enough for any count, and kRetryDelayMax by it is still something.
constexpr int64_t kSentAwayMax = 1'000'000'000;

}  // namespace

void PlacePace::Observe(uint64_t freed, bool busy, Instant now) {
  if (freed > freed_) {
    const auto learn = [&](Instant since, Duration* interval) {
      const Duration each = (now - since) / static_cast<int64_t>(freed - freed_);
      *interval = *interval == Duration() ? each : *interval + (each - *interval) / kNewestShare;
    };
    if (busy_) learn(since_, &interval_);
    if (full_) learn(std::max(since_, full_since_), &full_interval_);
    freed_ = freed;
    since_ = now;
    sent_away_ = 0;
  }
  if (busy && !busy_) since_ = now;
  busy_ = busy;
}

void PlacePace::SetFull(bool full, Instant now) {
  if (full && !full_) full_since_ = now;
  full_ = full;
}

int64_t PlacePace::PlacesWithin(Duration wait, Instant now) const {
  if (full_interval_ <= Duration()) return kPlacesUnknown;
  if (!full_) return wait / full_interval_;
  return wait / std::max(full_interval_, now - std::max(since_, full_since_));
}

Duration PlacePace::SendAway(int64_t lacking, Instant now) {
  if (interval_ == Duration()) return kRetryDelayUnknown;
  sent_away_ = std::min<int64_t>(sent_away_ + std::max<int64_t>(lacking, 1), kSentAwayMax);
  const Duration each = busy_ ? std::max(interval_, now - since_) : interval_;
  if (each >= kRetryDelayMax / sent_away_) return kRetryDelayMax;
  return std::max(each * sent_away_, kRetryDelayMin);
}

std::string DelayText(Duration delay) {
  return absl::StrCat(std::round(Seconds(delay) * 10) / 10, " s");
}

}  // namespace tutti::coordinator
