// Requests that were given up because workers died wherever they were computed. When that has come
// to kSentencesOfLikes requests like one another, whatever their seeds, the next is refused for a
// while: clients repeat what failed.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/sip_hash.h"
#include "coordinator/request.h"

namespace tutti::coordinator {

class PoisonList {
 public:
  // `key`: of the hash by which requests are remembered.
  explicit PoisonList(const Hash128& key) : key_(key) {}

  // `prompt` is the request's, wherever it is held. The oldest is forgotten for one beyond
  // kPoisonsKept.
  void Add(const Request& request, std::span<const TokenId> prompt, Instant now);
  // The time for which one like it is still refused; nothing: it is not.
  std::optional<Duration> RefusedFor(const Request& request, std::span<const TokenId> prompt,
                                     Instant now) const;
  size_t size() const { return poisons_.size(); }

 private:
  struct Poison {
    Hash128 print;
    Instant until;
    int32_t requests = 0;
  };
  Hash128 PrintOf(const Request& request, std::span<const TokenId> prompt) const;

  const Hash128 key_;
  std::deque<Poison> poisons_;  // the oldest first
};

}  // namespace tutti::coordinator
