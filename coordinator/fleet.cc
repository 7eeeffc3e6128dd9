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
  membership_.Join(event.link, event.hello, now);
  numbers_.Join(event.hello.worker_id());
  members_changed_at_ = now;
  may_form_ = true;
  leases_until_ = std::min(leases_until_, now + options_->lease);
  v1::Frame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_beat_interval_ms(static_cast<uint32_t>(Milliseconds(options_->beat_interval)));
  welcome->set_lease_ms(static_cast<uint32_t>(Milliseconds(options_->lease)));
  actions->push_back(SendToWorker{event.link, std::move(frame)});
}

void Fleet::RenewLease(Worker* worker, const v1::Frame& frame, Instant now) {
  worker->last_heard = now;
  // It may be of an epoch that ended while the worker loaded: it has loaded all the same.
  if (frame.has_shard_ready() && frame.epoch() == worker->shard_epoch.value()) {
    worker->loading = false;
    leases_until_ = std::min(leases_until_, now + options_->lease);
  }
}

absl::Status Fleet::HandleBeat(Worker* worker, const v1::Beat& beat, Instant now) {
  if (beat.progress() < worker->progress) {
    return absl::FailedPreconditionError(
        absl::StrCat("its progress went back from ", worker->progress, " to ", beat.progress()));
  }
  if (beat.progress() > worker->progress) worker->last_progress = now;
  worker->progress = beat.progress();
  worker->resident_bytes = beat.resident_bytes();
  worker->waiting_for = beat.waiting_for();
  return absl::OkStatus();
}

void Fleet::Remove(LinkKey link, Instant now) {
  numbers_.Leave(membership_.Find(link)->id());
  membership_.Remove(link);
  members_changed_at_ = now;
  may_form_ = true;
}

Instant Fleet::LeaseEnd(const Worker& worker) const {
  return worker.last_heard +
         (worker.loading ? std::max(options_->lease, kLoadingSilenceMax) : options_->lease);
}

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

FormingResult Fleet::Form(const std::vector<Vacancy>& vacancies, bool any_formed, Instant now,
                          std::vector<Action>* actions) {
  may_form_ = false;
  form_at_ = kInstantNever;
  absl::StatusOr<std::vector<Offer>> offers = OffersOf(*options_, numbers_, membership_.Idle());
  if (!offers.ok()) {
    return RefuseAll(vacancies, Annotate(offers.status(), "waiting for workers"), now);
  }
  const absl::Status decided = DecideLayout(*offers, any_formed, now, actions);
  if (!decided.ok()) return RefuseAll(vacancies, decided, now);
  FormingResult result{.outcomes = {}, .complete = true};
  for (const Vacancy& vacancy : vacancies) {
    if (vacancy.wanted_at > now) {
      form_at_ = std::min(form_at_, vacancy.wanted_at);
      result.complete = false;
      continue;
    }
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers);
    result.complete &= formation.ok();
    result.outcomes.push_back(formation.ok() ? Accept(vacancy.pipeline, *std::move(formation))
                                             : Refuse(vacancy.pipeline, formation.status()));
  }
  const bool as_many_as_possible =
      options_->num_pipelines == 0 && options_->device_map.stages.empty();
  while (result.complete && as_many_as_possible) {
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers);
    if (!formation.ok()) break;
    result.outcomes.push_back(Accept(std::nullopt, *std::move(formation)));
  }
  return result;
}

// Takes the workers it chooses out of the offers.
absl::StatusOr<Formation> Fleet::ChooseWorkers(std::vector<Offer>* offers) {
  if (!layout_.shape().has_value()) {
    return absl::UnavailableError("waiting for workers: none has joined");
  }
  TUTTI_ASSIGN_OR_RETURN(Formation formation,
                         ChooseFormation(*options_, *layout_.shape(), numbers_, *offers));
  std::erase_if(*offers, [&](const Offer& offer) {
    return std::find(formation.workers.begin(), formation.workers.end(), offer.worker) !=
           formation.workers.end();
  });
  return formation;
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

FormingResult Fleet::RefuseAll(const std::vector<Vacancy>& vacancies, const absl::Status& why,
                               Instant now) {
  FormingResult result;
  for (const Vacancy& vacancy : vacancies) {
    if (vacancy.wanted_at > now) {
      form_at_ = std::min(form_at_, vacancy.wanted_at);
    } else {
      result.outcomes.push_back(Refuse(vacancy.pipeline, why));
    }
  }
  return result;
}

// Whether enough workers have joined to decide what depends on them.
bool Fleet::EnoughHaveJoined(Instant now) {
  if (options_->min_workers > 0) {
    return membership_.size() >= static_cast<size_t>(options_->min_workers);
  }
  const Instant quiet_at = members_changed_at_ + kJoinQuiet;
  if (now >= quiet_at) return true;
  form_at_ = std::min(form_at_, quiet_at);
  return false;
}

// Decides the shape of the pipelines where flags leave it open; keeps the decision as long as a
// pipeline has that shape, or one can form in it. Not OK: nothing can form yet.
absl::Status Fleet::DecideLayout(const std::vector<Offer>& offers, bool any_formed, Instant now,
                                 std::vector<Action>* actions) {
  if (any_formed || membership_.size() == 0) return absl::OkStatus();
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
  std::vector<placement::DeviceSpec> devices;
  for (const Offer& offer : offers) devices.push_back(offer.device);
  TUTTI_RETURN_IF_ERROR(layout_.Choose(devices));
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
