// The workers that the fleet gives to pipelines that wait, and in which layout.
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/fleet/planned_links.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

void TakeOut(const std::vector<Worker*>& workers, std::vector<Offer>* offers) {
  std::erase_if(*offers, [&](const Offer& offer) {
    return std::find(workers.begin(), workers.end(), offer.worker) != workers.end();
  });
}

std::string Workers(size_t count) {
  return absl::StrCat(count, count == 1 ? " worker has joined" : " workers have joined");
}

}  // namespace

FormingResult Fleet::Form(const std::vector<WaitingPipeline>& waiting,
                          const FormedPipelines& formed, Instant now,
                          std::vector<Action>* actions) {
  may_form_ = false;
  form_at_ = kInstantNever;
  if (now >= grow_at_) grow_at_ = kInstantNever;
  std::string pausing;
  absl::StatusOr<std::vector<Offer>> offers = UsableOffers(membership_.Idle(), now, &pausing);
  if (!offers.ok()) return RefuseAll(waiting, Annotate(offers.status(), "waiting for workers"));
  const absl::Status decided = DecideLayout(*offers, formed.any, now, actions);
  if (!decided.ok()) return RefuseAll(waiting, decided);
  FormingResult result{.outcomes = {}, .complete = true};
  bool any_reduced = formed.any_reduced;
  for (const auto& [pipeline, ended] : waiting) {
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers, ended.has_value(), now);
    if (absl::IsUnavailable(formation.status()) && ended.has_value() && !offers->empty()) {
      const Instant reform_at = *ended + options_->reform_after;
      if (now < reform_at) {
        form_at_ = std::min(form_at_, reform_at);
      } else if (absl::StatusOr<Formation> fewer = ChooseFewer(&*offers, now); fewer.ok()) {
        formation = *std::move(fewer);
      }
    }
    result.complete &= formation.ok();
    if (formation.ok()) {
      any_reduced |= formation->reduced;
      result.outcomes.push_back(Accept(pipeline, *std::move(formation)));
    } else if (absl::IsUnavailable(formation.status()) && !pausing.empty()) {
      result.outcomes.push_back(Refuse(
          pipeline, absl::UnavailableError(absl::StrCat("pausing after a failure of ", pausing))));
    } else {
      result.outcomes.push_back(Refuse(pipeline, formation.status()));
    }
  }
  std::erase_if(*offers, [](const Offer& offer) { return offer.worker->slow; });
  const bool as_many_as_possible =
      options_->num_pipelines == 0 && options_->device_map.stages.empty();
  while (result.complete && as_many_as_possible && !any_reduced && LeavesSpares(*offers)) {
    absl::StatusOr<Formation> formation = ChooseWorkers(&*offers, /*may_be_fewer=*/false, now);
    if (!formation.ok()) break;
    result.outcomes.push_back(Accept(std::nullopt, *std::move(formation)));
  }
  return result;
}

absl::StatusOr<std::vector<Offer>> Fleet::UsableOffers(std::vector<Worker*> workers, Instant now,
                                                       std::string* pausing) {
  std::erase_if(workers, [&](const Worker* worker) {
    if (worker->goes() || !membership_.CanCompute(*worker)) return true;
    const Instant end = faults_.PauseEnd(worker->id());
    if (end <= now) return false;
    form_at_ = std::min(form_at_, end);
    absl::StrAppend(pausing, pausing->empty() ? "" : ", ", worker->id());
    return true;
  });
  return OffersOf(*options_, numbers_, workers);
}

// The offers of workers that are not slow and do not come and go.
std::vector<Offer> Fleet::SteadyOf(const std::vector<Offer>& offers, Instant now) const {
  std::vector<Offer> steady = offers;
  std::erase_if(steady, [&](const Offer& offer) {
    return offer.worker->slow || faults_.ComesAndGoes(offer.worker->id(), now);
  });
  return steady;
}

// Takes the workers it chooses out of the offers. A whole pipeline of workers that are not slow,
// then, if `may_be_fewer`, one of fewer, then a whole one of any.
absl::StatusOr<Formation> Fleet::ChooseWorkers(std::vector<Offer>* offers, bool may_be_fewer,
                                               Instant now) {
  if (!layout_.shape().has_value()) {
    return absl::UnavailableError("waiting for workers: none has joined");
  }
  const std::vector<Offer> steady = SteadyOf(*offers, now);
  const PipelineShape& shape = *layout_.shape();
  absl::StatusOr<Formation> formation = ChooseApart(shape, steady, now);
  std::vector<Offer> quick = *offers;
  std::erase_if(quick, [](const Offer& offer) { return offer.worker->slow; });
  const bool some_slow = quick.size() < offers->size();
  if (!formation.ok() && steady.size() < quick.size()) formation = ChooseApart(shape, quick, now);
  if (!formation.ok() && some_slow && may_be_fewer) formation = ChooseFewer(&quick, now);
  if (!formation.ok() && some_slow) formation = ChooseApart(shape, *offers, now);
  TUTTI_RETURN_IF_ERROR(formation.status());
  TakeOut(formation->workers, offers);
  return formation;
}

// The largest pipeline that fits those that are left; takes them out of the offers.
absl::StatusOr<Formation> Fleet::ChooseFewer(std::vector<Offer>* offers, Instant now) {
  if (layout_.open() || !layout_.shape().has_value()) {
    return absl::UnavailableError("the layout is chosen from the workers that join");
  }
  absl::StatusOr<Formation> formation = absl::UnavailableError("no worker is left");
  for (const PipelineShape& shape : SmallerShapes(*options_, *layout_.shape(), offers->size())) {
    formation = ChooseApart(shape, *offers, now);
    if (!formation.ok()) continue;
    formation->reduced = true;
    TakeOut(formation->workers, offers);
    break;
  }
  return formation;
}

bool Fleet::CanGrow(const std::vector<Worker*>& workers, Instant now) {
  grow_at_ = kInstantNever;
  std::vector<Worker*> idle = membership_.Idle();
  std::erase_if(idle, [&](const Worker* worker) {
    const Instant steady_at = faults_.ComesAndGoesUntil(worker->id());
    if (!worker->slow && now < steady_at) grow_at_ = std::min(grow_at_, steady_at);
    return worker->slow || now < steady_at;
  });
  if (idle.empty()) return false;
  Instant latest{};
  for (const Worker* worker : idle) latest = std::max(latest, worker->joined_at);
  if (const Instant at = latest + options_->reform_after; now < at) {
    grow_at_ = std::min(grow_at_, at);
    return false;
  }
  // Whoever pauses, a worker or a link, is asked for again when that is over.
  const Instant form_at = std::exchange(form_at_, kInstantNever);
  const bool can = CanForm(std::move(idle), workers, now);
  grow_at_ = std::min(grow_at_, form_at_);
  form_at_ = form_at;
  return can;
}

// A formation without a link that failed lately, if another worker in the place of one of its ends
// makes that possible; otherwise one with it, when the pause of the two is over.
absl::StatusOr<Formation> Fleet::ChooseApart(const PipelineShape& shape,
                                             const std::vector<Offer>& offers, Instant now) {
  TUTTI_ASSIGN_OR_RETURN(Formation first, ChooseFormation(*options_, shape, numbers_, offers));
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
      absl::StatusOr<Formation> formation = ChooseFormation(*options_, shape, numbers_, others);
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
  return CanForm(membership_.Idle(), workers, now);
}

bool Fleet::CanFormWithoutSlow(const std::vector<Worker*>& workers, Instant now) {
  if (!layout_.shape().has_value()) return false;
  std::vector<Worker*> all = membership_.Idle();
  all.insert(all.end(), workers.begin(), workers.end());
  std::erase_if(all, [](const Worker* worker) { return worker->slow; });
  std::sort(all.begin(), all.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  std::string pausing;
  absl::StatusOr<std::vector<Offer>> offers = UsableOffers(std::move(all), now, &pausing);
  if (!offers.ok()) return false;
  return ChooseApart(*layout_.shape(), *offers, now).ok() || ChooseFewer(&*offers, now).ok();
}

bool Fleet::CanForm(std::vector<Worker*> all, const std::vector<Worker*>& workers, Instant now) {
  if (!layout_.shape().has_value()) return false;
  all.insert(all.end(), workers.begin(), workers.end());
  std::sort(all.begin(), all.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  std::string pausing;
  const absl::StatusOr<std::vector<Offer>> offers = UsableOffers(std::move(all), now, &pausing);
  return offers.ok() && ChooseApart(*layout_.shape(), *offers, now).ok();
}

FormingOutcome Fleet::Accept(std::optional<PipelineId> pipeline, Formation formation) {
  numbers_.Fix();
  refusal_.clear();
  if (!membership_.class_settled() && !membership_.numerics_class().empty()) {
    class_settles_at_ = ClassQuietAt();
  }
  return {.pipeline = pipeline, .formation = std::move(formation), .notice = {}};
}

FormingOutcome Fleet::Refuse(PipelineId pipeline, const absl::Status& why) {
  FormingOutcome outcome{.pipeline = pipeline, .formation = why, .notice = {}};
  // Missing workers are no news while they start; that they will not do is.
  if (absl::IsUnavailable(why) || refusal_ == why.message()) return outcome;
  refusal_ = std::string(why.message());
  outcome.notice =
      Notice{absl::StrCat("no pipeline can form: ", refusal_), /*warning=*/!absl::IsNotFound(why)};
  return outcome;
}

FormingResult Fleet::RefuseAll(const std::vector<WaitingPipeline>& waiting,
                               const absl::Status& why) {
  FormingResult result;
  for (const auto& [pipeline, ended] : waiting) result.outcomes.push_back(Refuse(pipeline, why));
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

}  // namespace tutti::coordinator
