// The fate of sequences whose pipeline has ended.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/fail_point.h"
#include "base/retry_delay.h"
#include "coordinator/limits.h"
#include "coordinator/requests/admission.h"

namespace tutti::coordinator {

void Admission::RecoverSequences(const Loss& loss, Instant now, std::vector<Action>* actions) {
  AdmissionTarget& target = targets_[loss.pipeline.value()];
  Scheduler& scheduler = *target.scheduler;
  if (target.alone != nullptr) LetOthersIn(target.alone);
  pool_awaited_ = std::max(pool_awaited_, scheduler.kv_slots());
  const std::vector<Sequence*> running = scheduler.Running();
  const uint64_t recovery =
      running.empty() ? 0
                      : recoveries_.Begin(loss.pipeline, loss.why,
                                          static_cast<int32_t>(running.size()), loss.unheard, now);
  for (Sequence* sequence : running) {
    recoveries_.Forget(sequence->recovery);
    sequence->recovery = recovery;
    if (loss.may_be_doing && MayBeCause(*sequence, scheduler) &&
        !TUTTI_FAIL_POINT("coordinator.forget_losses")) {
      ++sequence->losses;
    }
  }
  scheduler.EndEpoch();
  for (Sequence* sequence : scheduler.PopWaiting()) {
    sequence->pipeline = -1;
    queue_.GiveBack(*sequence);
    if (sequence->losses >= kLossesMax) {
      GiveUp(sequence, loss.why, now, actions);
    } else if (sequence->losses >= kLossesSuspected) {
      suspects_.emplace(sequence->arrival, sequence);
      ++suspects_version_;
    } else {
      sequence->resumed = true;
      queue_.Push(sequence);
    }
  }
}

// Whether a loss may be this sequence's doing. The last one counts only if no step under way had
// anything else: one that has left meanwhile may still be in a step from before.
bool Admission::MayBeCause(const Sequence& sequence, const Scheduler& scheduler) {
  const Sequence::Stay& stay = sequence.stay;
  const bool on_board = stay.planned > stay.computed || stay.rebuilds > 0;
  if (sequence.losses < kLossesSuspected) return on_board;
  return on_board && scheduler.steps().IsAll(stay.id);
}

// Each of the last losses came while a step with it was under way, the last while it was alone.
void Admission::GiveUp(Sequence* sequence, const std::string& why, Instant now,
                       std::vector<Action>* actions) {
  poisons_.Add(sequence->request, sequence->prompt(), now);
  queue_.ChargeActual(sequence);
  recoveries_.Forget(sequence->recovery);
  requests_.Finish(
      sequence, FinishCause::kError,
      absl::InternalError(absl::StrCat(
          "workers were lost ", kLossesMax, " times in a row while they computed token ",
          sequence->output_tokens(), " of the output, the last time nothing else: ", why)),
      actions);
}

void Admission::HandleProgress(Sequence* sequence, Instant now, std::vector<Action>* actions) {
  requests_.CountGenerated(1);
  const AdmissionTarget& target = targets_[sequence->pipeline];
  if (sequence->numerics.empty() && target.numerics != nullptr) {
    sequence->numerics = *target.numerics;
  }
  sequence->losses = 0;
  if (target.alone == sequence) LetOthersIn(sequence);
  if (sequence->recovery == 0) return;
  std::optional<std::string> line =
      recoveries_.OnSequence(std::exchange(sequence->recovery, 0), now);
  if (line.has_value()) actions->push_back(Notice{*std::move(line)});
}

// ---- suspects

absl::Status Admission::CheckPoison(const Request& request, std::span<const TokenId> prompt,
                                    Instant now) const {
  const std::optional<Duration> left = poisons_.RefusedFor(request, prompt, now);
  if (!left.has_value()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "workers were lost ", kLossesMax,
      " times in a row where a request like this one was computed; it is refused for another ",
      static_cast<int64_t>(Seconds(*left)) + 1, " s"));
}

bool Admission::TakesOthers(size_t target) const {
  return targets_[target].takes_new() && targets_[target].alone == nullptr &&
         kept_for_suspect_ != target;
}

// The pipeline on which the first suspect will be alone, or waits for another to have been: that
// with fewest sequences, of those that can hold it.
std::optional<size_t> Admission::TargetForSuspect() const {
  if (suspects_.empty()) return std::nullopt;
  const Sequence& suspect = *suspects_.begin()->second;
  std::optional<size_t> fewest;
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (!targets_[i].takes_new() || !targets_[i].CanHold(suspect)) continue;
    if (!fewest.has_value() || targets_[i].sequences() < targets_[*fewest].sequences()) fewest = i;
  }
  return fewest;
}

bool Admission::BindSuspects(Instant now, std::vector<Action>* actions) {
  bool bound = false;
  std::optional<size_t> kept;
  while ((kept = TargetForSuspect()).has_value() && targets_[*kept].alone == nullptr) {
    Empty(*kept);
    Sequence* const suspect = suspects_.begin()->second;
    absl::Status status = CheckPoison(suspect->request, suspect->prompt(), now);
    if (!status.ok()) {
      End(suspect, FinishCause::kError, std::move(status), actions);
      continue;
    }
    suspects_.erase(suspects_.begin());
    targets_[*kept].alone = suspect;
    ++suspects_version_;
    queue_.TakePlace(*suspect);
    Bind(suspect, *kept);
    bound = true;
  }
  if (std::exchange(kept_for_suspect_, kept) != kept) ++suspects_version_;
  return bound;
}

// Sequences on the pipeline go back to the queue: most of what they have computed stays cached.
void Admission::Empty(size_t target) {
  Scheduler& scheduler = *targets_[target].scheduler;
  std::vector<Sequence*> there = scheduler.Running();
  for (Sequence* sequence : there) scheduler.Remove(sequence);
  for (Sequence* sequence : scheduler.PopWaiting()) there.push_back(sequence);
  for (Sequence* sequence : there) {
    sequence->pipeline = -1;
    sequence->resumed = true;
    queue_.GiveBack(*sequence);
    queue_.Push(sequence);
  }
  steps_due_->Add(PipelineId(static_cast<uint32_t>(target)));
}

void Admission::LetOthersIn(const Sequence* alone) {
  for (AdmissionTarget& target : targets_) {
    if (target.alone != alone) continue;
    target.alone = nullptr;
    ++suspects_version_;
  }
}

// ---- those that wait in vain

bool Admission::AnyCanHold(const Sequence& sequence) const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [&](const AdmissionTarget& target) { return target.CanHold(sequence); });
}

void Admission::Strand(Sequence* sequence, Instant now) {
  stranded_.emplace(sequence->arrival, sequence);
  sequence->stranded_since = now;
  stranded_until_ = std::min(stranded_until_, now + options_->recovery_timeout);
}

void Admission::SettleWaiting(bool may_come, const std::string& why, Instant now,
                              std::vector<Action>* actions) {
  stranded_until_ = kInstantNever;
  for (Sequence* sequence : requests_.All()) {
    if (sequence->pipeline >= 0) continue;
    if (AnyCanHold(*sequence)) {
      if (stranded_.erase(sequence->arrival) > 0) queue_.Push(sequence);
      sequence->stranded_since.reset();
      continue;
    }
    if (suspects_.contains(sequence->arrival)) {
      if (!sequence->stranded_since.has_value()) sequence->stranded_since = now;
    } else if (!stranded_.contains(sequence->arrival)) {
      queue_.Erase(sequence);
      Strand(sequence, now);
    }
    const Instant until = *sequence->stranded_since + options_->recovery_timeout;
    if (may_come && now < until) {
      stranded_until_ = std::min(stranded_until_, until);
      continue;
    }
    std::string text;
    if (may_come) {
      text = absl::StrCat("no pipeline that can go on with it has formed within ",
                          static_cast<int64_t>(Seconds(options_->recovery_timeout)),
                          " s (--recovery-timeout): ", why);
    } else if (LargestPool() >= sequence->kv_slots_max()) {
      text = absl::StrCat("it was begun in the numerics class ", sequence->numerics,
                          ", and no pipeline that is left computes in it");
    } else {
      text = absl::StrCat("it needs room for ", sequence->kv_slots_max(),
                          " tokens in the KV cache, and the pipelines that are left have ",
                          LargestPool());
    }
    End(sequence, FinishCause::kError,
        WithRetryDelay(absl::UnavailableError(text), kRetryDelayUnknown), actions);
  }
}

}  // namespace tutti::coordinator
