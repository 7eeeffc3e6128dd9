#include "coordinator/suspicion.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

void Suspicion::Accuse(const Accusation& accusation) {
  CHECK(accusation.first < accusation.end);
  const bool same_rows = std::max(first(), accusation.first) < std::min(end(), accusation.end);
  if (!accusations_.empty() && !same_rows) {
    for (const Accusation& one : accusations_) deaths_before_ += one.proven ? 1 : 0;
    accusations_.clear();
  }
  accusations_.push_back(accusation);
}

void Suspicion::Prove(uint64_t loss) {
  for (Accusation& one : accusations_) one.proven |= one.loss == loss;
}

void Suspicion::Acquit(uint64_t loss) {
  std::erase_if(accusations_, [loss](const Accusation& one) { return one.loss == loss; });
}

void Suspicion::OnComputed(int32_t end) {
  for (Accusation& one : accusations_) {
    one.first = std::max(one.first, end);
    if (one.first >= one.end && one.proven) ++deaths_before_;
  }
  std::erase_if(accusations_, [](const Accusation& one) { return one.first >= one.end; });
}

void Suspicion::OnToken() {
  if (accusations_.empty()) deaths_before_ = 0;
}

Suspicion::Verdict Suspicion::verdict() const {
  const int32_t deaths = losses() + deaths_before_;
  if (accusations_.empty()) return Verdict::kFree;
  if (losses() < kLossesSuspected && deaths < kDeathsMax / 2) return Verdict::kFree;
  if (TUTTI_FAIL_POINT("coordinator.sentence_untried")) {
    return losses() < kLossesMax ? Verdict::kFree : Verdict::kGuilty;
  }
  if (!accusations_.back().alone) return Verdict::kSuspect;
  const bool narrow = losses() >= kLossesMax && end() - first() <= kRowsSentenced;
  if (!narrow && deaths < kDeathsMax) return Verdict::kSuspect;
  const bool all_proven = std::all_of(accusations_.begin(), accusations_.end(),
                                      [](const Accusation& one) { return one.proven; });
  return all_proven ? Verdict::kGuilty : Verdict::kOpen;
}

int32_t Suspicion::RowsInTrial(int32_t first_row) const {
  if (accusations_.empty() || first_row >= end()) return std::numeric_limits<int32_t>::max();
  if (first_row < first()) return first() - first_row;
  return (end() - first_row + kTrialSteps - 1) / kTrialSteps;
}

int32_t Suspicion::first() const {
  int32_t first = 0;
  for (const Accusation& one : accusations_) first = std::max(first, one.first);
  return first;
}

int32_t Suspicion::end() const {
  int32_t end = std::numeric_limits<int32_t>::max();
  for (const Accusation& one : accusations_) end = std::min(end, one.end);
  return end;
}

}  // namespace tutti::coordinator
