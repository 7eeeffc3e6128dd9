#include "coordinator/place_pace.h"

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
    if (busy_) {
      const Duration each = (now - since_) / static_cast<int64_t>(freed - freed_);
      interval_ = interval_ == Duration() ? each : interval_ + (each - interval_) / kNewestShare;
    }
    freed_ = freed;
    since_ = now;
    sent_away_ = 0;
  }
  if (busy && !busy_) since_ = now;
  busy_ = busy;
}

int64_t PlacePace::PlacesWithin(Duration wait, Instant now) const {
  return interval_ == Duration() ? kPlacesUnknown : wait / Each(now);
}

Duration PlacePace::SendAway(int64_t lacking, Instant now) {
  if (interval_ == Duration()) return kRetryDelayUnknown;
  sent_away_ = std::min<int64_t>(sent_away_ + std::max<int64_t>(lacking, 1), kSentAwayMax);
  const Duration each = Each(now);
  if (each >= kRetryDelayMax / sent_away_) return kRetryDelayMax;
  return std::max(each * sent_away_, kRetryDelayMin);
}

std::string DelayText(Duration delay) {
  return absl::StrCat(std::round(Seconds(delay) * 10) / 10, " s");
}

}  // namespace tutti::coordinator
