#include "coordinator/backlog.h"

#include "base/check.h"
#include "base/fail_point.h"

namespace tutti::coordinator {

Backlog::Demand Backlog::DemandOf(const Sequence& sequence) const {
  return {.sequences = 1, .blocks = (int64_t{sequence.total()} + block_size_ - 1) / block_size_};
}

void Backlog::CountWaiting(const Sequence& sequence, int64_t sign) {
  ++version_;
  const int32_t priority = sequence.request.priority;
  const Demand one = DemandOf(sequence);
  Demand& demand = demand_[priority];
  demand.sequences += sign * one.sequences;
  demand.blocks += sign * one.blocks;
  if (demand.sequences == 0) demand_.erase(priority);
  CountTokens(sign * sequence.total());
}

void Backlog::Wait(Sequence* sequence) {
  CHECK(sequence->stay.planned == 0 && waiting_.emplace(sequence->admission_key(), sequence).second)
      << "request " << sequence->request.id << " waits already, or runs";
  CountWaiting(*sequence, 1);
}

bool Backlog::Unwait(Sequence* sequence) {
  if (waiting_.erase(sequence->admission_key()) == 0) return false;
  CountWaiting(*sequence, -1);
  return true;
}

Backlog::Demand Backlog::DemandUpTo(int32_t priority) const {
  Demand sum;
  for (const auto& [of, demand] : demand_) {
    if (of > priority) break;
    sum.sequences += demand.sequences;
    sum.blocks += demand.blocks;
  }
  return sum;
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
  std::map<int32_t, Demand> demand;
  int64_t tokens = 0;
  for (const auto& [key, sequence] : waiting_) {
    const Demand one = DemandOf(*sequence);
    Demand& sum = demand[sequence->request.priority];
    sum.sequences += one.sequences;
    sum.blocks += one.blocks;
    tokens += sequence->total();
  }
  for (const auto& [key, sequence] : behind_) tokens += sequence->behind();
  return demand == demand_ && tokens == tokens_;
}

}  // namespace tutti::coordinator
