// How pipelines form from idle workers, and what becomes of the requests of one that ends.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_impl.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

void TakeFrom(std::vector<Offer>* offers, const std::vector<Worker*>& taken) {
  std::erase_if(*offers, [&](const Offer& offer) {
    return std::find(taken.begin(), taken.end(), offer.worker) != taken.end();
  });
}

std::string Workers(size_t count) {
  return absl::StrCat(count, count == 1 ? " worker has joined" : " workers have joined");
}

}  // namespace

void Engine::Impl::AddUnit() {
  units_.push_back(std::make_unique<Unit>(PipelineId(static_cast<uint32_t>(units_.size())),
                                          &options_, &membership_, &last_epoch_, &directory_));
}

void Engine::Impl::FormPipelines() {
  if (!may_form_ && now_ < form_at_) return;
  may_form_ = false;
  form_at_ = kInstantNever;
  absl::StatusOr<std::vector<Offer>> offers = OffersOf(options_, numbers_, membership_.Idle());
  if (!offers.ok()) return RefuseForming(Annotate(offers.status(), "waiting for workers"));
  if (const absl::Status settled = SettleLayout(*offers); !settled.ok()) {
    return RefuseForming(settled);
  }
  const bool all_formed = FormWaiting(&*offers);
  if (!all_formed) return;  // those who wait may want what the idle still hold
  if (options_.num_pipelines == 0 && options_.device_map.stages.empty()) FormMore(&*offers);
  ReleaseIdle();
}

// Whether enough have joined to decide what depends on who has.
bool Engine::Impl::Settled() {
  if (options_.min_workers > 0) {
    return membership_.size() >= static_cast<size_t>(options_.min_workers);
  }
  const Instant settled_at = members_changed_at_ + kJoinSettle;
  if (now_ >= settled_at) return true;
  form_at_ = std::min(form_at_, settled_at);
  return false;
}

// Decides the shape of the pipelines where flags leave it open; keeps what was decided as long as a
// pipeline has that shape, or one can form in it. Not OK: nothing can form yet.
absl::Status Engine::Impl::SettleLayout(const std::vector<Offer>& offers) {
  const bool formed = std::any_of(units_.begin(), units_.end(), [](const auto& unit) {
    return unit->pipeline.state() != Pipeline::State::kWaiting;
  });
  if (formed || membership_.size() == 0) return absl::OkStatus();
  const bool numbers_matter =
      layout_.open() || layout_.orders_devices() || options_.min_workers > 0;
  bool decide = !numbers_.fixed() && numbers_matter;
  if (layout_.open() && !decide) {
    decide = !ChooseFormation(options_, *layout_.shape(), numbers_, offers).ok();
  }
  if (!decide) return absl::OkStatus();
  if (!Settled()) {
    if (options_.min_workers > 0) {
      return absl::UnavailableError(absl::StrCat("waiting for workers: ", membership_.size(),
                                                 " of at least ", options_.min_workers,
                                                 " have joined (--min-workers)"));
    }
    return absl::UnavailableError(absl::StrCat(
        Workers(membership_.size()), "; the layout is decided when nobody has joined or left for ",
        static_cast<int64_t>(Seconds(kJoinSettle)), " s, or --min-workers have"));
  }
  if (!layout_.open()) return absl::OkStatus();
  if (offers.empty()) return absl::UnavailableError("waiting for workers: none may be used");
  std::vector<placement::DeviceSpec> devices;
  for (const Offer& offer : offers) devices.push_back(offer.device);
  TUTTI_RETURN_IF_ERROR(layout_.Choose(devices));
  actions_->push_back(Notice{layout_.Describe()});
  return absl::OkStatus();
}

void Engine::Impl::CannotForm(Pipeline* pipeline, const absl::Status& why) {
  const std::string reason(why.message());
  pipeline->CannotForm(reason);
  // That workers are missing is no news while they start; that they will not do is.
  if (absl::IsUnavailable(why) || refusal_ == reason) return;
  refusal_ = reason;
  actions_->push_back(
      Notice{absl::StrCat("no pipeline can form: ", reason), /*warning=*/!absl::IsNotFound(why)});
}

void Engine::Impl::RefuseForming(const absl::Status& why) {
  for (const auto& unit : units_) {
    Pipeline& pipeline = unit->pipeline;
    if (pipeline.WantsWorkers(now_)) {
      CannotForm(&pipeline, why);
    } else if (pipeline.state() == Pipeline::State::kWaiting) {
      form_at_ = std::min(form_at_, pipeline.next_deadline());
    }
  }
}

void Engine::Impl::Form(Pipeline* pipeline, const Formation& formation,
                        std::vector<Offer>* offers) {
  TakeFrom(offers, formation.workers);
  pipeline->Form(formation, now_, actions_);
  numbers_.Fix();
  refusal_.clear();
  state_changed_ = true;
  WatchFor(options_.load_timeout);
}

// False: some pipeline has to go on waiting.
bool Engine::Impl::FormWaiting(std::vector<Offer>* offers) {
  bool all_formed = true;
  for (const auto& unit : units_) {
    Pipeline& pipeline = unit->pipeline;
    if (pipeline.state() != Pipeline::State::kWaiting) continue;
    if (!pipeline.WantsWorkers(now_)) {
      all_formed = false;
      form_at_ = std::min(form_at_, pipeline.next_deadline());
      continue;
    }
    if (!layout_.shape().has_value()) {  // nobody has joined yet
      all_formed = false;
      CannotForm(&pipeline, absl::UnavailableError("waiting for workers: none has joined"));
      continue;
    }
    const absl::StatusOr<Formation> formation =
        ChooseFormation(options_, *layout_.shape(), numbers_, *offers);
    if (!formation.ok()) {
      CannotForm(&pipeline, formation.status());
      all_formed = false;
      continue;
    }
    Form(&pipeline, *formation, offers);
  }
  return all_formed;
}

// As many more as the idle workers allow.
void Engine::Impl::FormMore(std::vector<Offer>* offers) {
  for (;;) {
    const absl::StatusOr<Formation> formation =
        ChooseFormation(options_, *layout_.shape(), numbers_, *offers);
    if (!formation.ok()) return;
    AddUnit();
    Form(&units_.back()->pipeline, *formation, offers);
  }
}

// Whoever holds a shard of an earlier epoch and has no part in any pipeline lets it go.
void Engine::Impl::ReleaseIdle() {
  for (Worker* worker : membership_.Idle()) {
    if (!std::exchange(worker->holds_shard, false)) continue;
    v1::Frame frame;
    frame.set_epoch(worker->shard_epoch.value());
    frame.mutable_release();
    actions_->push_back(SendToWorker{worker->link, std::move(frame)});
  }
}

void Engine::Impl::EndPipeline(Unit* unit, const std::string& why) {
  const bool serving = unit->serving();
  unit->pipeline.End(why, now_);
  may_form_ = state_changed_ = may_bind_ = true;
  unit->rate.Forget();
  if (!serving) return;
  for (Sequence* running : unit->scheduler.Running()) ++running->losses;
  unit->scheduler.EndEpoch();
  SettleAfterLoss(unit->scheduler.PopWaiting(), why);
}

// Decides what becomes of the sequences of a pipeline that is gone: they have all their tokens and
// nothing computed, ready to go on elsewhere. Those whose client has seen nothing yet begin again
// on another pipeline; the others end here, saying what happened.
void Engine::Impl::SettleAfterLoss(const std::vector<Sequence*>& lost, const std::string& why) {
  for (Sequence* sequence : lost) {
    queue_.Settle(sequence);
    sequence->pipeline = -1;
    queue_.Push(sequence);
  }
  const int64_t slots = LargestPool();
  for (Sequence* sequence : requests_.All()) {
    if (sequence->pipeline >= 0) continue;
    const bool can_begin_again = sequence->output_tokens() == 0 && sequence->losses < kLossesMax &&
                                 sequence->kv_slots_max() <= slots;
    if (!can_begin_again) EndRequest(sequence, FinishCause::kError, absl::UnavailableError(why));
  }
}

}  // namespace tutti::coordinator
