#include "coordinator/pipeline/retiring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti::coordinator {

const bool* Retiring::Add() {
  states_.emplace_back();
  return &states_.back().accepting;
}

void Retiring::KeepIfNobodyGoes(const Replica& replica) {
  const std::vector<Worker*> workers = fleet_->membership()->Of(replica.id());
  if (std::none_of(workers.begin(), workers.end(), [](const Worker* w) { return w->goes(); })) {
    Cancel(replica);
  }
}

bool Retiring::Update(bool draining, Instant now) {
  const bool others = std::any_of(
      replicas_->begin(), replicas_->end(),
      [this](const auto& replica) { return replica->serving() && StateOf(*replica)->why.empty(); });
  bool changed = false;
  for (const auto& replica : *replicas_) {
    State* const state = StateOf(*replica);
    if (state->why.empty()) continue;
    const bool elsewhere =
        others || (!draining && fleet_->CanFormWith(fleet_->membership()->Of(replica->id()), now));
    changed |= state->accepting == elsewhere;
    state->accepting = !elsewhere;
  }
  return changed;
}

std::string Retiring::WhyEnd(const Replica& replica, bool requests_wait) const {
  const State& state = StateOf(replica);
  if (state.why.empty() || !replica.serving()) return "";
  if (replica.scheduler.running() + replica.scheduler.waiting() > 0) return "";
  return state.accepting && requests_wait ? "" : state.why;
}

bool Retiring::IsOpen(const Replica& replica) const {
  return StateOf(replica).why.empty() || !StateOf(replica).accepting;
}

std::string Retiring::WhyNot(const Replica& replica) const {
  if (!replica.serving() || IsOpen(replica)) return replica.pipeline.WhyNot();
  return absl::StrCat(StateOf(replica).why, ", and no other can take its place");
}

std::string Retiring::WhyNotWhole(const Replica& replica) const {
  if (!replica.serving() || !replica.reduced) return WhyNot(replica);
  const size_t workers = replica.pipeline.WorkerIds().size();
  return absl::StrCat("it is made of the ", workers, workers == 1 ? " worker" : " workers",
                      " that were left, fewer than the layout says");
}

}  // namespace tutti::coordinator
