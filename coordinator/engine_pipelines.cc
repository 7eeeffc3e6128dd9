// How pipelines form from idle workers, and what becomes of the requests of one that ends.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_impl.h"
#include "coordinator/limits.h"

namespace tutti {
namespace {

void TakeFrom(std::vector<Worker*>* idle, const std::vector<Worker*>& taken) {
  std::erase_if(*idle, [&](const Worker* worker) {
    return std::find(taken.begin(), taken.end(), worker) != taken.end();
  });
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
  std::vector<Worker*> idle = membership_.Idle();
  const bool all_formed = FormWaiting(&idle);
  if (!all_formed) return;  // those who wait may want what the idle still hold
  if (options_.num_pipelines == 0 && options_.device_map.empty()) FormMore(&idle);
  ReleaseIdle(idle);
}

// False: some pipeline has to go on waiting.
bool Engine::Impl::FormWaiting(std::vector<Worker*>* idle) {
  bool all_formed = true;
  for (const auto& unit : units_) {
    Pipeline& pipeline = unit->pipeline;
    if (pipeline.state() != Pipeline::State::kWaiting) continue;
    if (!pipeline.WantsWorkers(now_)) {
      all_formed = false;
      form_at_ = std::min(form_at_, pipeline.next_deadline());
      continue;
    }
    absl::StatusOr<Formation> formation = ChooseFormation(options_, *idle);
    if (!formation.ok()) {
      pipeline.CannotForm(std::string(formation.status().message()));
      all_formed = false;
      continue;
    }
    TakeFrom(idle, formation->workers);
    pipeline.Form(*formation, now_, actions_);
    state_changed_ = true;
    WatchFor(options_.load_timeout);
  }
  return all_formed;
}

// As many more as the idle workers allow.
void Engine::Impl::FormMore(std::vector<Worker*>* idle) {
  for (;;) {
    absl::StatusOr<Formation> formation = ChooseFormation(options_, *idle);
    if (!formation.ok()) return;
    AddUnit();
    state_changed_ = true;
    TakeFrom(idle, formation->workers);
    units_.back()->pipeline.Form(*formation, now_, actions_);
    WatchFor(options_.load_timeout);
  }
}

// Whoever holds a shard of an earlier epoch and has no part in any pipeline lets it go.
void Engine::Impl::ReleaseIdle(const std::vector<Worker*>& idle) {
  for (Worker* worker : idle) {
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
  SettleAfterLoss(unit->scheduler.TakeWaiting(), why);
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

}  // namespace tutti
