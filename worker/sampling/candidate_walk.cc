#include "worker/sampling/candidate_walk.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::worker {

std::optional<WalkCandidate> CandidateWalk::Draw(const DrawRule& rule,
                                                 std::span<const WalkCandidate> first) {
  CHECK(!first.empty());
  sums_.clear();
  uint64_t sum = 0;
  for (const WalkCandidate& candidate : first) {
    sums_.push_back(sum += rule.Units(candidate.logit));
  }
  whole_ = static_cast<int64_t>(first.size()) == rule.size || rule.Units(first.back().logit) == 0;
  std::optional<uint64_t> kept = Kept(rule, first);
  if (!kept.has_value()) return std::nullopt;
  if (rule.top_p < kWholeShare) {
    // The fewest that hold the share: the first whose running sum reaches it.
    const std::optional<size_t> last = Find(rule, first, ShareOfUp(*kept, rule.top_p) - 1);
    if (!last.has_value()) return std::nullopt;
    kept = sums_[*last];
  }
  const std::optional<size_t> drawn = Find(rule, first, ShareOf(*kept, rule.random));
  if (!drawn.has_value()) return std::nullopt;
  return first[*drawn];
}

// Units of the candidates that min_p and top_k keep.
std::optional<uint64_t> CandidateWalk::Kept(const DrawRule& rule,
                                            std::span<const WalkCandidate> first) {
  const auto size = static_cast<int64_t>(first.size());
  if (!rule.is_filtered() && rule.total.has_value()) return rule.total;
  const auto end =
      std::partition_point(first.begin(), first.end(), [&](const WalkCandidate& candidate) {
        return rule.Argument(candidate.logit) >= rule.least_argument;
      });
  const int64_t count = std::min<int64_t>(end - first.begin(), rule.top_k);
  // Beyond the list's end others may be kept, unless it says where they end.
  if (count == size && rule.top_k > size && !whole_) {
    needed_ = rule.least_argument > -DrawRule::kInfinity ? size + 1 : rule.top_k;
    return std::nullopt;
  }
  return sums_[static_cast<size_t>(count - 1)];
}

std::optional<size_t> CandidateWalk::Find(const DrawRule& rule,
                                          std::span<const WalkCandidate> first, uint64_t units) {
  const uint64_t sum = sums_.back();
  if (units >= sum) {
    if (!whole_) {
      // None of those that follow has more units than the last.
      const uint64_t most = rule.Units(first.back().logit) + 1;
      needed_ = static_cast<int64_t>(first.size() + (units - sum) / most + 1);
      return std::nullopt;
    }
    // A total by logarithms may be a little too large. The last that has any weight is it.
    units = sum - 1;
  }
  return std::upper_bound(sums_.begin(), sums_.end(), units) - sums_.begin();
}

}  // namespace tutti::worker
