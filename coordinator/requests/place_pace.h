// The time for which a request that is sent away should stay away: until a place is likely to come
// free for it, at the pace at which places have come free lately.
//
// Only time with requests in the service counts. Whoever is sent away stands in line behind those
// sent away since a place last came free, so that they do not all come back for the same one. A
// service that has stopped giving places back is given longer and longer.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tutti::coordinator {

class PlacePace {
 public:
  static constexpr int64_t kPlacesUnknown = -1;

  // So many places have come free since the coordinator started; `busy`: some are taken. Called
  // whenever either may have changed.
  void Observe(uint64_t freed, bool busy, Instant now);
  // Whether somebody waits for a place, once all have been given that there are.
  void SetFull(bool full, Instant now);
  // The number of places that are likely to come free within `wait`, at the pace at which they did
  // while others waited; kPlacesUnknown before anything was measured so.
  int64_t PlacesWithin(Duration wait, Instant now) const;
  // The delay for a request that lacks so many places, which is sent away: from kRetryDelayMin to
  // kRetryDelayMax; kRetryDelayUnknown before anything was measured.
  Duration SendAway(int64_t lacking, Instant now);

 private:
  uint64_t freed_ = 0;
  bool busy_ = false;
  Instant since_;          // of the last place that came free, or since when it is busy
  Duration interval_{};    // between two places that come free; zero: not known
  int64_t sent_away_ = 0;  // places that were lacking since then
  bool full_ = false;
  Instant full_since_;
  Duration full_interval_{};  // as interval_, while others waited
};

// "1.2 s".
std::string DelayText(Duration delay);

}  // namespace tutti::coordinator
