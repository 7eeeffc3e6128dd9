// The engine's dealings with pipelines between loading and serving, with links that fail, and with
// workers that were told to stop.
//
// A worker that is leaving goes on serving. Its pipeline retires (retiring.h), and when its last
// stream has ended the worker is let go.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/engine.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

// ---- linking

void Engine::WatchLinking(const Replica& replica) {
  if (replica.pipeline.state() != Pipeline::State::kLinking) return;
  admission_.recoveries()->OnMilestone(replica.id(), RecoveryLog::Milestone::kLoaded, now_);
  state_changed_ = true;
  WatchFor(kLinkingPatience);
}

absl::Status Engine::HandleProbeDone(Worker* worker, uint64_t step) {
  Replica* const replica = ReplicaOf(*worker);
  Pipeline& pipeline = replica->pipeline;
  TUTTI_RETURN_IF_ERROR(pipeline.OnProbeDone(worker, step, now_));
  if (!replica->serving()) return absl::OkStatus();
  cannot_load_.clear();
  const std::vector<std::string> ids = pipeline.WorkerIds();
  for (const std::string& id : ids) fleet_.faults()->OnServing(id);
  for (const PipelineLinks::Link& link : pipeline.links().all()) {
    fleet_.faults()->OnLinkWorked(ids[link.planned.from], ids[link.planned.to]);
  }
  // Rows and K/V of another class are not those that these workers would compute.
  const bool same_class = replica->numerics == pipeline.NumericsOfLayers();
  const KvSurvival survival = pipeline.Survival();
  replica->scheduler.BeginEpoch(pipeline.num_stages(), pipeline.num_blocks(),
                                same_class ? &survival : nullptr);
  replica->numerics = pipeline.NumericsOfLayers();
  replica->exact = pipeline.IsExact();
  admission_.recoveries()->OnMilestone(replica->id(), RecoveryLog::Milestone::kServing, now_);
  SettleWaiting();
  spares_.Look();
  if (replica->reduced) fleet_.HandleReducedServes();
  state_changed_ = true;
  return absl::OkStatus();
}

void Engine::EndLink(Replica* replica, const Pipeline::FailedLink& link) {
  fleet_.faults()->OnLinkFailure(link.from, link.to, link.why, now_);
  EndPipeline(replica, link.why);
}

// Looks at every worker and every pipeline, but only when the time of some lease, load or step may
// have run out. At all of them at once: times that were renewed meanwhile then cost one wake-up.
void Engine::Watch() {
  if (now_ < std::min(fleet_.leases_until(), watch_at_)) return;
  for (const LostWorker& lost : fleet_.FindExpired(now_)) {
    LoseWorker(lost.link, lost.reason, true, LossCause::kSilent);
  }
  for (const auto& replica : replicas_) WatchPipeline(replica.get());
  fleet_.UpdateLeasesUntil();
  watch_at_ = kInstantNever;
  for (const auto& replica : replicas_) {
    if (replica->pipeline.state() == Pipeline::State::kWaiting) continue;
    watch_at_ = std::min(watch_at_, replica->pipeline.next_deadline());
  }
}

void Engine::WatchPipeline(Replica* replica) {
  Pipeline& pipeline = replica->pipeline;
  if (const std::optional<Pipeline::Stuck> stuck = pipeline.FindStuck(now_)) {
    LoseWorker(stuck->link, absl::DeadlineExceededError(stuck->why), true, LossCause::kSilent);
  } else if (const std::optional<Pipeline::Unlinked> unlinked = pipeline.FindUnlinked(now_)) {
    if (unlinked->link.has_value()) return EndLink(replica, *unlinked->link);
    LoseWorker(unlinked->worker->link, absl::DeadlineExceededError(unlinked->worker->why), true,
               LossCause::kNobody);
  } else if (const auto late = pipeline.FindLateLoaders(now_); !late.empty()) {
    for (const std::string& id : late) fleet_.faults()->OnFailure(id, now_);
    EndPipeline(replica,
                absl::StrCat("loading on ", absl::StrJoin(late, ", "), " did not get on for ",
                             static_cast<int64_t>(Seconds(options_.load_timeout)), " s"));
  }
}

// ---- slow workers

// Between two steps: those under way are computed again, as after a loss. What was slow keeps what
// it has loaded, and stands by.
void Engine::MoveSlow(Replica* replica) {
  const std::string why = draining_ ? "" : slow_places_.WhyMove(*replica, now_);
  if (why.empty()) return;
  actions_->push_back(Notice{absl::StrCat(why, ": its place moves"), /*warning=*/true});
  EndPipeline(replica, why);
}

// ---- the numerics class

Fleet::ClassUse Engine::UseOfClass() const {
  const bool formed = std::any_of(replicas_.begin(), replicas_.end(), [](const auto& replica) {
    return replica->pipeline.state() != Pipeline::State::kWaiting;
  });
  Fleet::ClassUse use{.formed = formed, .live = false, .begun_in = ""};
  use.live = admission_.AnyLives(&use.begun_in);
  return use;
}

void Engine::UpdateClass() {
  if (!fleet_.ClassIsDue(now_)) return;
  if (fleet_.UpdateClass(UseOfClass(), now_, actions_)) {
    for (const auto& replica : replicas_) {
      if (replica->pipeline.state() == Pipeline::State::kWaiting) continue;
      EndPipeline(replica.get(), "the numerics class was chosen again, for all that have joined");
    }
  }
  for (const LostWorker& unable : fleet_.FindUnable()) {
    LoseWorker(unable.link, unable.reason, true, LossCause::kNobody);
  }
}

// ---- growing again

void Engine::GrowReduced() {
  for (const auto& replica : replicas_) {
    if (!replica->serving() || !replica->reduced ||
        !fleet_.CanGrow(fleet_.membership()->Of(replica->id()), now_)) {
      continue;
    }
    EndPipeline(replica.get(), "enough workers have come back for the whole layout");
    return;  // another one, when this has formed
  }
}

// ---- leaving

void Engine::On(const DrainRequested&) {
  admission_.Drain();
  draining_ = true;
  state_changed_ = true;
}

void Engine::HandleLeaving(Worker* worker) {
  if (worker->leaving) return;
  fleet_.HandleLeaving(worker);
  Replica* const replica = ReplicaOf(*worker);
  if (replica == nullptr) return LetGo(worker->link);
  const std::string why = absl::StrCat(replica->pipeline.Describe(*worker), " is leaving");
  if (replica->serving()) {
    retiring_.Begin(*replica, why);
    state_changed_ = true;
    return;
  }
  EndPipeline(replica, why);
  LetGo(worker->link);
}

absl::StatusOr<std::string> Engine::DrainWorker(const std::string& worker_id, bool undo,
                                                Instant now, std::vector<Action>* actions) {
  now_ = now;
  actions_ = actions;
  Worker* const worker = fleet_.membership()->FindId(worker_id);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("no worker named ", worker_id,
                                            " is linked; `tutti status` lists those that are"));
  }
  fleet_.SetDrained(worker, !undo);
  if (undo) worker->slow = false;
  state_changed_ = true;
  spares_.Look();
  Replica* const replica = ReplicaOf(*worker);
  if (undo) {
    if (replica != nullptr) retiring_.KeepIfNobodyGoes(*replica);
    return absl::StrCat(worker_id, " takes part again");
  }
  if (replica == nullptr) return absl::StrCat(worker_id, " is idle, and gets no shard any more");
  const std::string why = absl::StrCat(replica->pipeline.Describe(*worker), " is drained");
  if (!replica->serving() || fleet_.CanFormWith(fleet_.membership()->Of(replica->id()), now_)) {
    EndPipeline(replica, why);
    return absl::StrCat(worker_id,
                        " is idle: its pipeline forms without it, and its streams go on");
  }
  retiring_.Begin(*replica, why);
  return absl::StrCat(worker_id,
                      " serves until its streams have ended: no spare can take its place. New "
                      "requests go to another pipeline if there is one");
}

void Engine::LetGo(LinkKey link) {
  fleet_.Remove(link, now_);
  actions_->push_back(
      CloseWorker{link, absl::UnavailableError("it was told to stop, and nothing needs it")});
}

// Workers whose pipeline has ended.
void Engine::LetIdleGo() {
  for (const Worker* worker : fleet_.membership()->Idle()) {
    if (worker->leaving) LetGo(worker->link);
  }
}

void Engine::EndRetired() {
  for (const auto& replica : replicas_) {
    const std::string why = retiring_.WhyEnd(*replica, /*requests_wait=*/admission_.waiting() > 0);
    if (!why.empty()) EndPipeline(replica.get(), why);  // its workers go when others form
  }
}

}  // namespace tutti::coordinator
