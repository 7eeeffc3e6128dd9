// One row's candidates from the likeliest down, looked at only as far as needed.
//
// Most rows are decided within the first few of 150,000 candidates, so these are fetched in two
// growing portions, of small vocabularies in one. A row that they do not decide is drawn from as a
// whole (row_draw.h), by the same rule and with the same result.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/sampling/draw_rule.h"

namespace tutti::worker {

struct WalkCandidate {
  int32_t id = 0;
  float logit = 0;
  float raw = 0;  // before penalties and bias
};

// Portions: the first decides nearly every row of a trained model, the second most of the rest.
inline constexpr int64_t kFirstPortion = 64;
inline constexpr int64_t kSecondPortion = 1024;
// Below so many ids a row that one rank has alone is drawn from as a whole instead: putting the
// second portion in order takes as long as all passes over 6,000 logits. (Ranks of builds that
// differ must exchange the same.)
inline constexpr int64_t kPortionedVocabulary = 6144;

// Whether `a` is listed before `b`.
inline bool ListedBefore(const WalkCandidate& a, const WalkCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class CandidateWalk {
 public:
  // Draws from the first candidates of a row. None: they do not decide it; then `needed()` of them
  // could, at the least.
  //
  // REQUIRES: `first` is not empty and in order
  std::optional<WalkCandidate> Draw(const DrawRule& rule, std::span<const WalkCandidate> first);
  int64_t needed() const { return needed_; }

 private:
  std::optional<uint64_t> Kept(const DrawRule& rule, std::span<const WalkCandidate> first);
  // The first place whose running sum exceeds `units`; none when they lie beyond the list.
  std::optional<size_t> Find(const DrawRule& rule, std::span<const WalkCandidate> first,
                             uint64_t units);

  std::vector<uint64_t> sums_;  // [i]: of candidates [0, i]
  bool whole_ = false;          // no other candidate has any weight
  int64_t needed_ = 0;
};

}  // namespace tutti::worker
