// The fleet's memory of workers and links that failed, so that the same composition is not
// tried in a tight loop: how long a worker pauses, which two workers are better not put side by
// side, and which workers come and go.
//
// Workers are known by their ids: a worker that fails is gone, and comes back on another link. A
// worker pauses only for failures of its own. A link that closes, or a lease that runs out, while a
// pipeline serves is most often the doing of something outside, and a worker that is back serves
// again at once (docs/decisions/0039-who-pauses.md).
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"

namespace tutti::coordinator {

class FaultMemory {
 public:
  // ---- workers

  // It failed by itself: its shard could not be loaded or computed, it contradicted itself, or it
  // took too long to load.
  void OnFailure(const std::string& worker, Instant now);
  // It was lost before its pipeline served: it may have crashed of its shard.
  void OnLostEarly(const std::string& worker, Instant now);
  // Its pipeline began to serve: the shard can be loaded, and the links carry.
  void OnServing(const std::string& worker);
  // Its pipeline ended after it had served for kStableServing.
  void OnServedLong(const std::string& worker);
  // Not before then is it tried again; Instant(): at once.
  Instant PauseEnd(const std::string& worker) const;

  void OnLeft(const std::string& worker, Instant now);
  // It left twice or more within the last kComeAndGoTime.
  bool ComesAndGoes(const std::string& worker, Instant now) const {
    return now < ComesAndGoesUntil(worker);
  }
  // Until when that is so, if it stays from now on; in the past where it is not.
  Instant ComesAndGoesUntil(const std::string& worker) const;

  // ---- links

  struct LinkFault {
    std::string why;
    Instant avoided_until;  // others are preferred so long
    Instant pause_end;      // the two are not tried before
    int32_t failures = 0;
  };
  void OnLinkFailure(const std::string& from, const std::string& to, const std::string& why,
                     Instant now);
  void OnLinkWorked(const std::string& from, const std::string& to);
  // The worker joined: what was wrong with its end may have been mended.
  void ForgetLinksOf(const std::string& worker);
  // Null: nothing speaks against the two side by side.
  const LinkFault* FindLinkFault(const std::string& from, const std::string& to, Instant now) const;

 private:
  struct Conduct {
    int32_t failures = 0;    // of its own
    int32_t lost_early = 0;  // in a row
    Instant pause_end;
    std::deque<Instant> left;  // the last two times
  };
  Conduct* ConductOf(const std::string& worker);
  static void Pause(Conduct* conduct, Instant now);

  std::map<std::string, Conduct> workers_;                          // at most kFaultsKept
  std::map<std::pair<std::string, std::string>, LinkFault> links_;  // at most kFaultsKept
};

}  // namespace tutti::coordinator
