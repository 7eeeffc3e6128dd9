// Spares load ahead: an idle worker loads the shard of a pipeline that serves, so that it can take
// the place of a worker that is lost within the time of a link instead of a load.
//
// What an idle worker has loaded is Worker::standby; this decides it, and knows when to look again.
//
// Thread: the engine's.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/events.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/fleet/shard_check.h"
#include "coordinator/pipeline/replica.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

class Spares {
 public:
  // REQUIRES: the objects pointed at outlive this. `last_epoch` is the counter of all pipelines.
  Spares(Fleet* fleet, const std::vector<std::unique_ptr<Replica>>* replicas, ShardCheck* check,
         Epoch* last_epoch)
      : fleet_(fleet), replicas_(replicas), check_(check), last_epoch_(last_epoch) {}

  // Workers have come, or pipelines serve that did not: LoadAhead may find something.
  void Look() { due_ = true; }
  // LoadAhead may find something then though nothing happens: the pause of a spare ends.
  Instant next_deadline() const { return pause_end_; }
  // Tells idle workers what to load: the shard that fewest of them hold, of those the one that
  // takes longest. Only while all pipelines serve: otherwise their own workers load. Nothing, if
  // nothing has changed; nor while the coordinator is `draining`.
  void LoadAhead(bool draining, Instant now, std::vector<Action>* actions);
  // A frame of a worker that stands by. After an error it is lost, with the error as the reason.
  absl::Status HandleFrame(Worker* worker, const v1::Frame& frame, Instant now,
                           std::vector<Action>* actions);

 private:
  struct Place {
    Pipeline::Replaceable what;
    v1::AssignShard shard;
    int32_t spares = 0;
  };
  std::vector<Place> Places() const;
  std::vector<Worker*> WithoutPlace(Instant now, std::vector<Place>* places);
  void Assign(Place* place, Worker* worker, std::vector<Action>* actions);

  Fleet* const fleet_;
  const std::vector<std::unique_ptr<Replica>>* const replicas_;
  ShardCheck* const check_;
  Epoch* const last_epoch_;
  bool due_ = false;
  Instant pause_end_ = kInstantNever;
};

}  // namespace tutti::coordinator
