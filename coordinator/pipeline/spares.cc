#include "coordinator/pipeline/spares.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::coordinator {
namespace {

// The shard as such, whoever serves it.
v1::AssignShard WithoutNames(const v1::AssignShard& assigned) {
  v1::AssignShard shard = assigned;
  shard.clear_next_worker_ids();
  shard.clear_previous_worker_id();
  shard.clear_rank_worker_ids();
  shard.clear_kv_epoch();
  shard.clear_peers();
  return shard;
}

// Whether two shards are the same, of whatever pipeline.
bool SameShard(const v1::AssignShard& a, const v1::AssignShard& b) {
  v1::AssignShard other = b;
  other.set_pipeline(a.pipeline());
  return a.SerializeAsString() == other.SerializeAsString();
}

bool CanHold(const Membership& members, const Worker& worker, const Pipeline::Replaceable& place) {
  return DeviceKindOf(worker.hello) == place.rank->kind &&
         worker.hello.memory_bytes() >= place.rank->peak_bytes() &&
         members.ClassOf(worker) == members.ClassOf(*place.worker);
}

}  // namespace

void Spares::LoadAhead(bool draining, Instant now, std::vector<Action>* actions) {
  if (!std::exchange(due_, false) && now < pause_end_) return;
  pause_end_ = kInstantNever;
  const bool whole = std::all_of(replicas_->begin(), replicas_->end(),
                                 [](const auto& replica) { return replica->serving(); });
  if (!whole || draining) return;
  std::vector<Place> places = Places();
  for (Worker* worker : WithoutPlace(now, &places)) {
    Place* best = nullptr;
    const auto key = [&](const Place& place) {
      return std::make_tuple(place.spares, -place.what.rank->weight_bytes);
    };
    for (Place& place : places) {
      if (!CanHold(*fleet_->membership(), *worker, place.what)) continue;
      if (best == nullptr || key(place) < key(*best)) best = &place;
    }
    worker->standby.reset();
    if (best == nullptr) {
      Fleet::ReleaseShard(worker, actions);
    } else {
      Assign(best, worker, actions);
    }
  }
}

// The shards of all pipelines, each once.
std::vector<Spares::Place> Spares::Places() const {
  std::vector<Place> places;
  for (const auto& replica : *replicas_) {
    for (const Pipeline::Replaceable& what : replica->pipeline.Replaceables()) {
      v1::AssignShard shard = WithoutNames(*what.shard);
      const bool known = std::any_of(places.begin(), places.end(), [&](const Place& place) {
        return SameShard(place.shard, shard);
      });
      if (!known) places.push_back({what, std::move(shard)});
    }
  }
  return places;
}

// Idle workers that stand by for none of the places; of the others each place counts its own.
std::vector<Worker*> Spares::WithoutPlace(Instant now, std::vector<Place>* places) {
  std::vector<Worker*> without;
  for (Worker* worker : fleet_->membership()->Idle()) {
    if (worker->goes()) continue;
    if (const Instant pause = fleet_->faults()->PauseEnd(worker->id()); pause > now) {
      pause_end_ = std::min(pause_end_, pause);
      continue;
    }
    const auto place = std::find_if(places->begin(), places->end(), [&](const Place& one) {
      return worker->standby.has_value() && SameShard(one.shard, worker->standby->shard);
    });
    if (place == places->end()) {
      without.push_back(worker);
    } else {
      ++place->spares;
    }
  }
  return without;
}

void Spares::Assign(Place* place, Worker* worker, std::vector<Action>* actions) {
  ++place->spares;
  worker->standby.emplace(
      Worker::Standby{place->shard.pipeline(), *place->what.placement, place->shard});
  worker->holds_shard = true;
  worker->held_stage = place->shard.stage();
  worker->held_rank = place->shard.rank();
  worker->shard_epoch = ++*last_epoch_;
  SendToWorker send{worker->link, {}};
  send.frame.set_epoch(worker->shard_epoch.value());
  *send.frame.mutable_assign_shard() = *place->what.shard;
  send.frame.mutable_assign_shard()->set_standby(true);
  send.frame.mutable_assign_shard()->clear_peers();  // who stands by dials nobody
  send.frame.mutable_assign_shard()->clear_kv_epoch();
  actions->push_back(std::move(send));
}

absl::Status Spares::HandleFrame(Worker* worker, const v1::Frame& frame, Instant now,
                                 std::vector<Action>* actions) {
  Worker::Standby& standby = *worker->standby;
  if (frame.has_shard_progress()) {
    const v1::ShardProgress& progress = frame.shard_progress();
    if (progress.loaded_bytes() < 0 || progress.loaded_bytes() > progress.total_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("it has loaded ", progress.loaded_bytes(),
                                                     " of ", progress.total_bytes(), " bytes"));
    }
    TUTTI_RETURN_IF_ERROR(CheckFetch(progress));
    standby.fetch = FetchText(progress);
    standby.loaded_share = static_cast<double>(progress.loaded_bytes()) /
                           static_cast<double>(std::max<int64_t>(progress.total_bytes(), 1));
    return absl::OkStatus();
  }
  if (frame.has_failure()) {
    return absl::AbortedError(absl::StrCat("it failed: ", frame.failure().message()));
  }
  if (!frame.has_shard_ready()) {
    return absl::FailedPreconditionError("it stands by, and sent what only a stage sends");
  }
  const int32_t rank = standby.shard.rank();
  absl::Status same =
      check_->CompareMemory(*worker, standby.placement.ranks[static_cast<size_t>(rank)],
                            standby.shard, frame.shard_ready());
  if (same.ok() && check_->ready()) {
    same = check_->Compare(standby.placement, rank, frame.shard_ready());
  }
  if (!same.ok()) {
    check_->Refuse(*worker, same, now, actions);
    return same;
  }
  standby.ready = true;
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
