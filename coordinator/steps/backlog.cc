#include "coordinator/steps/backlog.h"

#include "base/check.h"
#include "base/fail_point.h"

namespace tutti::coordinator {

void Backlog::Wait(Sequence* sequence) {
  CHECK(sequence->stay.planned == 0 && waiting_.emplace(sequence->admission_key(), sequence).second)
      << "request " << sequence->request.id << " waits already, or runs";
  ++version_;
  CountTokens(sequence->total());
}

bool Backlog::Unwait(Sequence* sequence) {
  if (waiting_.erase(sequence->admission_key()) == 0) return false;
  ++version_;
  CountTokens(-sequence->total());
  return true;
}

void Backlog::FallBehind(Sequence* sequence) {
  CHECK(sequence->behind() > 1 && behind_.emplace(sequence->preemption_key(), sequence).second)
      << "request " << sequence->request.id;
  CountTokens(sequence->behind());
}

void Backlog::Advance(Sequence* sequence, int32_t count) {
  const bool was_behind = sequence->behind() > 1;
  sequence->stay.planned += count;
  if (!was_behind) return;
  if (!TUTTI_FAIL_POINT("coordinator.keep_backlog")) CountTokens(-count);
  if (sequence->behind() <= 1) Forget(sequence);
}

bool Backlog::Forget(Sequence* sequence) {
  if (behind_.erase(sequence->preemption_key()) == 0) return false;
  CountTokens(-sequence->behind());
  return true;
}

bool Backlog::SumsAreRight() const {
  int64_t tokens = 0;
  for (const auto& [key, sequence] : waiting_) tokens += sequence->total();
  for (const auto& [key, sequence] : behind_) tokens += sequence->behind();
  return tokens == tokens_;
}

}  // namespace tutti::coordinator
