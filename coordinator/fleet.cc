#include "coordinator/fleet.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "model/partition.h"
#include "placement/place_pipeline.h"

namespace tutti::coordinator {
namespace {

// The memory of the smallest part of the model: with as many ranks as there may be.
std::array<int64_t, kDeviceKinds> SmallestMemory(const EngineOptions& options) {
  placement::PlacementOptions placement = PlacementOptionsOf(options);
  if (placement.num_ranks == 0) {
    placement.num_ranks = model::kLeaves;
    while (!model::CheckRanks(options.model, placement.num_ranks).ok()) placement.num_ranks /= 2;
  }
  return {placement::SmallestStageBytes(options.model, placement, DeviceKind::kCpu),
          placement::SmallestStageBytes(options.model, placement, DeviceKind::kCuda)};
}

MembershipOptions MembershipOptionsOf(const EngineOptions& options) {
  return {.cluster_id = options.cluster_id,
          .build = options.build,
          .model_fingerprint = options.model_fingerprint,
          .numerics_class = options.numerics_class,
          .mix_numerics = options.mix_numerics,
          .memory_bytes_min = SmallestMemory(options)};
}

absl::Status CheckBeat(const v1::Beat& beat) {
  if (beat.unmoved_us() < 0 || beat.allowed_us() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its beat says that its executor has not moved for ", beat.unmoved_us(),
                     " us of ", beat.allowed_us(), " us allowed: no time is below 0"));
  }
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (beat.activity().size() > kActivityBytesMax ||
      !std::all_of(beat.activity().begin(), beat.activity().end(), printable)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its beat's activity has ", beat.activity().size(),
        " bytes; a line of printable ASCII of at most ", kActivityBytesMax, " is expected"));
  }
  return absl::OkStatus();
}

// By the worker's own account, which knows how fast it is and how much of its processors it gets,
// and by ours, within which it may say what it likes.
absl::Status CheckExecutor(const Worker& worker, const v1::Beat& beat, Instant now) {
  const Duration most = kExecutorPatience;
  const int64_t most_us = std::chrono::duration_cast<std::chrono::microseconds>(most).count();
  const int64_t allowed_us = std::min(beat.allowed_us(), most_us);
  const auto seen_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now - worker.at_work_since).count();
  const int64_t unmoved_us = seen_us > most_us ? seen_us : beat.unmoved_us();
  if (unmoved_us <= allowed_us) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "its executor is stuck ", beat.activity().empty() ? "at its work" : beat.activity(), ": for ",
      unmoved_us / 1000, " ms without progress, of ", allowed_us / 1000, " ms that it may take"));
}

std::string Workers(size_t count) {
  return absl::StrCat(count, count == 1 ? " worker has joined" : " workers have joined");
}

}  // namespace

Fleet::Fleet(const EngineOptions* options)
    : options_(options), membership_(MembershipOptionsOf(*options)), layout_(options) {}

// ---- membership

std::optional<LostWorker> Fleet::FindExpiredNamesake(std::string_view worker_id, Instant now) {
  const Worker* const namesake = membership_.FindId(worker_id);
  if (namesake == nullptr || LeaseEnd(*namesake) > now) return std::nullopt;
  return LostWorker{namesake->link, absl::UnavailableError("its lease expired, and it came back")};
}

void Fleet::HandleJoin(const WorkerJoined& event, Instant now, std::vector<Action>* actions) {
  const absl::Status status = membership_.Check(event.hello);
  if (!status.ok()) {
    actions->push_back(CloseWorker{event.link, status});
    return;
  }
  const std::string& id = event.hello.worker_id();
  membership_.Join(event.link, event.hello, now);
  numbers_.Join(id);
  faults_.ForgetLinksOf(id);
  if (!faults_.ComesAndGoes(id, now)) members_changed_at_ = now;
  may_form_ = true;
  leases_until_ = std::min(leases_until_, now + options_->lease);
  v1::Frame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_beat_interval_ms(static_cast<uint32_t>(Milliseconds(options_->beat_interval)));
  welcome->set_lease_ms(static_cast<uint32_t>(Milliseconds(options_->lease)));
  actions->push_back(SendToWorker{event.link, std::move(frame)});
}

absl::Status Fleet::HandleBeat(Worker* worker, const v1::Beat& beat, Instant now) {
  TUTTI_RETURN_IF_ERROR(CheckBeat(beat));
  if (beat.progress() < worker->progress) {
    return absl::FailedPreconditionError(
        absl::StrCat("its progress went back from ", worker->progress, " to ", beat.progress()));
  }
  const bool moved = beat.progress() > worker->progress;
  if (moved) worker->last_progress = now;
  worker->progress = beat.progress();
  worker->resident_bytes = beat.resident_bytes();
  worker->waiting_for = beat.waiting_for();
  const bool at_work = beat.allowed_us() > 0;
  if (moved || !worker->at_work) worker->at_work_since = now;
  worker->at_work = at_work;
  return at_work ? CheckExecutor(*worker, beat, now) : absl::OkStatus();
}

void Fleet::Forgive(Duration stall, Instant now) {
  for (Worker* worker : membership_.All()) {
    for (Instant* time : {&worker->last_heard, &worker->last_progress, &worker->at_work_since}) {
      *time = std::min(now, *time + stall);
    }
  }
  members_changed_at_ = std::min(now, members_changed_at_ + stall);
}

void Fleet::Remove(LinkKey link, Instant now) {
  const std::string id = membership_.Find(link)->id();
  numbers_.Leave(id);
  membership_.Remove(link);
  faults_.OnLeft(id, now);
  if (!faults_.ComesAndGoes(id, now)) members_changed_at_ = now;
  may_form_ = true;
}

Instant Fleet::LeaseEnd(const Worker& worker) const { return worker.last_heard + options_->lease; }

std::vector<LostWorker> Fleet::FindExpired(Instant now) {
  std::vector<LostWorker> expired;
  for (const Worker* worker : membership_.All()) {
    if (LeaseEnd(*worker) > now) continue;
    const auto silent = static_cast<int64_t>(Milliseconds(now - worker->last_heard));
    expired.push_back(
        {worker->link, absl::DeadlineExceededError(absl::StrCat(
                           "its lease expired, nothing was heard of it for ", silent, " ms"))});
  }
  return expired;
}

void Fleet::UpdateLeasesUntil() {
  leases_until_ = kInstantNever;
  for (const Worker* worker : membership_.All()) {
    leases_until_ = std::min(leases_until_, LeaseEnd(*worker));
  }
}

// ---- formations

FormingResult Fleet::Form(const std::vector<PipelineId>& waiting, bool any_formed, Instant now,
                          std::vector<Action>* actions) {
  may_form_ = false;
  form_at_ = kInstantNever;
  std::string pausing;
  absl::StatusOr<std::vector<Offer>> offers = UsableOffers(membership_.Idle(), now, &pausing);
  if (!offers.ok()) return RefuseAll(waiting, Annotate(offers.status(), "waiting for workers"));
  const absl::Status decided = DecideLayout(*offers, any_formed, now, actions);
  if (!decided.ok()) return RefuseAll(waiting, decided);
  FormingResult result{.outcomes = {}, .complete = true};
  for (const PipelineId pipeline : waiting) {
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers, now);
    result.complete &= formation.ok();
    if (formation.ok()) {
      result.outcomes.push_back(Accept(pipeline, *std::move(formation)));
    } else if (absl::IsUnavailable(formation.status()) && !pausing.empty()) {
      result.outcomes.push_back(Refuse(
          pipeline, absl::UnavailableError(absl::StrCat("pausing after a failure of ", pausing))));
    } else {
      result.outcomes.push_back(Refuse(pipeline, formation.status()));
    }
  }
  const bool as_many_as_possible =
      options_->num_pipelines == 0 && options_->device_map.stages.empty();
  while (result.complete && as_many_as_possible) {
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers, now);
    if (!formation.ok()) break;
    result.outcomes.push_back(Accept(std::nullopt, *std::move(formation)));
  }
  return result;
}

absl::StatusOr<std::vector<Offer>> Fleet::UsableOffers(std::vector<Worker*> workers, Instant now,
                                                       std::string* pausing) {
  std::erase_if(workers, [&](const Worker* worker) {
    if (worker->leaving) return true;
    const Instant end = faults_.PauseEnd(worker->id());
    if (end <= now) return false;
    form_at_ = std::min(form_at_, end);
    absl::StrAppend(pausing, pausing->empty() ? "" : ", ", worker->id());
    return true;
  });
  return OffersOf(*options_, numbers_, workers);
}

// Those of workers that do not come and go.
std::vector<Offer> Fleet::SteadyOf(const std::vector<Offer>& offers, Instant now) const {
  std::vector<Offer> steady = offers;
  std::erase_if(steady,
                [&](const Offer& offer) { return faults_.ComesAndGoes(offer.worker->id(), now); });
  return steady;
}

// Takes the workers it chooses out of the offers.
absl::StatusOr<Formation> Fleet::ChooseWorkers(std::vector<Offer>* offers, Instant now) {
  if (!layout_.shape().has_value()) {
    return absl::UnavailableError("waiting for workers: none has joined");
  }
  const std::vector<Offer> steady = SteadyOf(*offers, now);
  absl::StatusOr<Formation> formation = ChooseApart(steady, now);
  if (!formation.ok() && steady.size() < offers->size()) formation = ChooseApart(*offers, now);
  TUTTI_RETURN_IF_ERROR(formation.status());
  std::erase_if(*offers, [&](const Offer& offer) {
    return std::find(formation->workers.begin(), formation->workers.end(), offer.worker) !=
           formation->workers.end();
  });
  return formation;
}

// A formation without a link that failed lately, if another worker in the place of one of its ends
// makes that possible; otherwise one with it, when the pause of the two is over.
absl::StatusOr<Formation> Fleet::ChooseApart(const std::vector<Offer>& offers, Instant now) {
  TUTTI_ASSIGN_OR_RETURN(Formation first,
                         ChooseFormation(*options_, *layout_.shape(), numbers_, offers));
  PlannedLink link;
  const FaultMemory::LinkFault* const fault = FindFault(first, now, &link);
  if (fault == nullptr) return first;
  struct Try {
    std::vector<Offer> offers;
    Formation formation;
    PlannedLink link;
  };
  std::vector<Try> tries = {{offers, first, link}};
  for (size_t at = 0; at < tries.size() && tries.size() < kFormationsTried; ++at) {
    for (const size_t end : {tries[at].link.to, tries[at].link.from}) {
      std::vector<Offer> others = tries[at].offers;
      const Worker* const left_out = tries[at].formation.workers[end];
      std::erase_if(others, [&](const Offer& offer) { return offer.worker == left_out; });
      absl::StatusOr<Formation> formation =
          ChooseFormation(*options_, *layout_.shape(), numbers_, others);
      if (!formation.ok()) continue;
      if (FindFault(*formation, now, &link) == nullptr) return formation;
      tries.push_back({std::move(others), *std::move(formation), link});
    }
  }
  if (fault->pause_end <= now) return first;
  form_at_ = std::min(form_at_, fault->pause_end);
  return absl::UnavailableError(absl::StrCat("waiting to try again: ", fault->why));
}

// The first of the formation's links that failed lately, into *link; null: none did.
const FaultMemory::LinkFault* Fleet::FindFault(const Formation& formation, Instant now,
                                               PlannedLink* link) const {
  std::vector<size_t> ranks;
  for (const placement::StagePlacement& stage : formation.placement.stages) {
    ranks.push_back(stage.ranks.size());
  }
  for (const PlannedLink& planned : LinksOf(ranks)) {
    const FaultMemory::LinkFault* const fault = faults_.FindLinkFault(
        formation.workers[planned.from]->id(), formation.workers[planned.to]->id(), now);
    if (fault == nullptr) continue;
    *link = planned;
    return fault;
  }
  return nullptr;
}

bool Fleet::CanFormWith(const std::vector<Worker*>& workers, Instant now) {
  if (!layout_.shape().has_value()) return false;
  std::vector<Worker*> all = membership_.Idle();
  all.insert(all.end(), workers.begin(), workers.end());
  std::sort(all.begin(), all.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  std::string pausing;
  const absl::StatusOr<std::vector<Offer>> offers = UsableOffers(std::move(all), now, &pausing);
  return offers.ok() && ChooseFormation(*options_, *layout_.shape(), numbers_, *offers).ok();
}

FormingOutcome Fleet::Accept(std::optional<PipelineId> pipeline, Formation formation) {
  numbers_.Fix();
  refusal_.clear();
  return {.pipeline = pipeline, .formation = std::move(formation), .notice = {}};
}

FormingOutcome Fleet::Refuse(PipelineId pipeline, const absl::Status& why) {
  FormingOutcome outcome{.pipeline = pipeline, .formation = why, .notice = {}};
  // That workers are missing is no news while they start; that they will not do is.
  if (absl::IsUnavailable(why) || refusal_ == why.message()) return outcome;
  refusal_ = std::string(why.message());
  outcome.notice =
      Notice{absl::StrCat("no pipeline can form: ", refusal_), /*warning=*/!absl::IsNotFound(why)};
  return outcome;
}

FormingResult Fleet::RefuseAll(const std::vector<PipelineId>& waiting, const absl::Status& why) {
  FormingResult result;
  for (const PipelineId pipeline : waiting) result.outcomes.push_back(Refuse(pipeline, why));
  return result;
}

// Whether enough workers have joined to decide what depends on them. Workers that come and go do
// not prolong the wait, and others do so for kJoinWaitMax only.
bool Fleet::EnoughHaveJoined(Instant now) {
  if (options_->min_workers > 0) {
    return membership_.size() >= static_cast<size_t>(options_->min_workers);
  }
  if (!undecided_since_.has_value()) undecided_since_ = now;
  const Instant quiet_at =
      std::min(members_changed_at_ + kJoinQuiet, *undecided_since_ + kJoinWaitMax);
  if (now >= quiet_at) {
    undecided_since_.reset();
    return true;
  }
  form_at_ = std::min(form_at_, quiet_at);
  return false;
}

// Decides the shape of the pipelines where flags leave it open; keeps the decision as long as a
// pipeline has that shape, or one can form in it. Not OK: nothing can form yet.
absl::Status Fleet::DecideLayout(const std::vector<Offer>& offers, bool any_formed, Instant now,
                                 std::vector<Action>* actions) {
  if (any_formed || membership_.size() == 0) {
    undecided_since_.reset();
    return absl::OkStatus();
  }
  const bool numbers_matter =
      layout_.open() || layout_.orders_devices() || options_->min_workers > 0;
  bool decide = !numbers_.fixed() && numbers_matter;
  if (layout_.open() && !decide) {
    decide = !ChooseFormation(*options_, *layout_.shape(), numbers_, offers).ok();
  }
  if (!decide) return absl::OkStatus();
  if (!EnoughHaveJoined(now)) {
    if (options_->min_workers > 0) {
      return absl::UnavailableError(absl::StrCat("waiting for workers: ", membership_.size(),
                                                 " of at least ", options_->min_workers,
                                                 " have joined (--min-workers)"));
    }
    return absl::UnavailableError(absl::StrCat(
        Workers(membership_.size()), "; the layout is decided when none has joined or left for ",
        static_cast<int64_t>(Seconds(kJoinQuiet)), " s, or --min-workers have"));
  }
  if (!layout_.open()) return absl::OkStatus();
  if (offers.empty()) return absl::UnavailableError("waiting for workers: none may be used");
  const auto choose = [&](const std::vector<Offer>& from) {
    std::vector<placement::DeviceSpec> devices;
    for (const Offer& offer : from) devices.push_back(offer.device);
    return layout_.Choose(devices);
  };
  // A worker that comes and goes is counted on only where nothing fits without it.
  const std::vector<Offer> steady = SteadyOf(offers, now);
  if (steady.empty() || !choose(steady).ok()) TUTTI_RETURN_IF_ERROR(choose(offers));
  actions->push_back(Notice{layout_.Describe()});
  return absl::OkStatus();
}

void Fleet::ReleaseIdleShards(std::vector<Action>* actions) {
  for (Worker* worker : membership_.Idle()) {
    if (!std::exchange(worker->holds_shard, false)) continue;
    v1::Frame frame;
    frame.set_epoch(worker->shard_epoch.value());
    frame.mutable_release();
    actions->push_back(SendToWorker{worker->link, std::move(frame)});
  }
}

void Fleet::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  if (layout_.open() && layout_.shape().has_value()) layout_.FillStatus(status->mutable_layout());
  for (const Worker* worker : membership_.Idle()) {
    FillWorkerStatus(*worker, now, status->add_idle_workers());
  }
}

}  // namespace tutti::coordinator
