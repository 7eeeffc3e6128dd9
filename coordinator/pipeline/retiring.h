// The pipelines that take nothing new and end with their last stream, because a worker of each is
// leaving or is drained.
//
// Where nothing can take the place of one, requests that were taken are still served by it.
//
// Thread: the engine's.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/pipeline/replica.h"

namespace tutti::coordinator {

class Retiring {
 public:
  // REQUIRES: both outlive this
  Retiring(Fleet* fleet, const std::vector<std::unique_ptr<Replica>>* replicas)
      : fleet_(fleet), replicas_(replicas) {}

  // One more pipeline; the first is pipeline 0. False behind the result: it retires, and others
  // take what is new.
  const bool* Add();
  // `why`: for people, and what it ends with.
  void Begin(const Replica& replica, const std::string& why) { StateOf(replica)->why = why; }
  // It goes on, or has ended: the next epoch's workers are others.
  void Cancel(const Replica& replica) { *StateOf(replica) = State(); }
  // The same, if none of its workers goes any more.
  void KeepIfNobodyGoes(const Replica& replica);

  // Looks whether others take the new requests of pipelines that retire. Nobody is waited for by a
  // coordinator that is itself `draining`. Whether that has changed for any.
  bool Update(bool draining, Instant now);
  // The reason why a pipeline that retires is to end now; empty: it is not. `requests_wait`: some
  // request is bound to no pipeline.
  std::string WhyEnd(const Replica& replica, bool requests_wait) const;

  // Whether new requests come to the pipeline, or to one that takes its place.
  bool IsOpen(const Replica& replica) const;
  // Why new requests find nothing there; "" while it serves and is open.
  std::string WhyNot(const Replica& replica) const;
  // The same, and of one that serves with fewer workers than the layout says.
  std::string WhyNotWhole(const Replica& replica) const;

 private:
  struct State {
    std::string why;  // empty: it goes on
    // Requests that were taken are bound to it; of one that retires: nothing can take its place.
    bool accepting = true;
  };
  State* StateOf(const Replica& replica) { return &states_[replica.id().value()]; }
  const State& StateOf(const Replica& replica) const { return states_[replica.id().value()]; }

  Fleet* const fleet_;
  const std::vector<std::unique_ptr<Replica>>* const replicas_;
  std::deque<State> states_;  // by pipeline id; they stay where they are
};

}  // namespace tutti::coordinator
