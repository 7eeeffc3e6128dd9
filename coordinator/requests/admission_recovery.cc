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
  Scheduler& scheduler = *targets_[loss.pipeline.value()].scheduler;
  pool_awaited_ = std::max(pool_awaited_, scheduler.kv_slots());
  const std::vector<Sequence*> running = scheduler.Running();
  const uint64_t recovery =
      running.empty() ? 0
                      : recoveries_.Begin(loss.pipeline, loss.why,
                                          static_cast<int32_t>(running.size()), loss.unheard, now);
  const std::optional<uint64_t> number =
      suspects_.BeginLoss(loss.cause, loss.worker, loss.why, now);
  for (Sequence* sequence : running) {
    recoveries_.Forget(sequence->recovery);
    sequence->recovery = recovery;
    if (number.has_value() && !TUTTI_FAIL_POINT("coordinator.forget_losses")) {
      suspects_.Accuse(*number, sequence, scheduler);
    }
  }
  suspects_.LetOthersIn(loss.pipeline.value());
  scheduler.EndEpoch();
  for (Sequence* sequence : scheduler.PopWaiting()) {
    sequence->pipeline = -1;
    queue_.GiveBack(*sequence);
    const Suspicion::Verdict verdict = sequence->suspicion.verdict();
    if (verdict == Suspicion::Verdict::kGuilty) {
      queue_.ChargeActual(sequence);
      recoveries_.Forget(sequence->recovery);
      requests_.Finish(sequence, FinishCause::kError, suspects_.GiveUp(*sequence, loss.why, now),
                       actions);
    } else if (verdict == Suspicion::Verdict::kFree) {
      sequence->resumed = true;
      queue_.Push(sequence);
    } else {
      suspects_.Wait(sequence);
    }
  }
}

void Admission::HandleProgress(Sequence* sequence, Instant now, std::vector<Action>* actions) {
  requests_.CountGenerated(1);
  const AdmissionTarget& target = targets_[sequence->pipeline];
  if (sequence->numerics.empty() && target.numerics != nullptr) {
    sequence->numerics = *target.numerics;
  }
  sequence->suspicion.OnToken();
  if (suspects_.IsAlone(*sequence)) LetOthersIn(static_cast<size_t>(sequence->pipeline));
  if (sequence->recovery == 0) return;
  std::optional<std::string> line =
      recoveries_.OnSequence(std::exchange(sequence->recovery, 0), now);
  if (line.has_value()) actions->push_back(Notice{*std::move(line)});
}

// ---- suspects

void Admission::HandleJoin(const std::string& worker, bool same_process, Instant now,
                           std::vector<Action>* actions) {
  const std::optional<LossFinding> finding = suspects_.OnJoined(worker, same_process);
  if (finding.has_value()) Judge(*finding, now, actions);
}

void Admission::JudgeOverdue(Instant now, std::vector<Action>* actions) {
  for (const LossFinding& finding : suspects_.FindOverdue(now)) Judge(finding, now, actions);
}

void Admission::Judge(const LossFinding& finding, Instant now, std::vector<Action>* actions) {
  for (const RequestId id : finding.accused) {
    Sequence* sequence = requests_.Find(id);
    if (sequence == nullptr) continue;  // ended meanwhile
    if (finding.died) {
      sequence->suspicion.Prove(finding.loss);
    } else {
      sequence->suspicion.Acquit(finding.loss);
    }
    suspects_.Reconsider();
    const Suspicion::Verdict verdict = sequence->suspicion.verdict();
    if (verdict == Suspicion::Verdict::kFree) {
      Release(sequence, now);
    } else if (verdict == Suspicion::Verdict::kGuilty && suspects_.Holds(*sequence)) {
      if (TUTTI_FAIL_POINT("coordinator.sentence_neighbour")) sequence = suspects_.Next();
      End(sequence, FinishCause::kError, suspects_.GiveUp(*sequence, finding.why, now), actions);
    }
  }
}

// It is no suspect any more, where it was one.
void Admission::Release(Sequence* sequence, Instant now) {
  if (suspects_.IsAlone(*sequence)) LetOthersIn(static_cast<size_t>(sequence->pipeline));
  if (!suspects_.Erase(*sequence)) return;
  sequence->resumed = true;
  if (AnyCanHold(*sequence)) {
    queue_.Push(sequence);
  } else {
    stranded_.Add(sequence, sequence->stranded_since.value_or(now));
  }
}

void Admission::LetOthersIn(size_t target) {
  suspects_.LetOthersIn(target);
  steps_due_->Add(PipelineId(static_cast<uint32_t>(target)));
}

bool Admission::BindSuspects(Instant now, std::vector<Action>* actions) {
  for (const size_t target : suspects_.FindCleared()) LetOthersIn(target);
  bool bound = false;
  std::optional<size_t> kept;
  while ((kept = suspects_.FindTarget()).has_value() && !suspects_.IsTaken(*kept)) {
    Sequence* const suspect = suspects_.Next();
    absl::Status status = suspects_.Check(suspect->request, suspect->prompt(), now);
    if (!status.ok()) {
      End(suspect, FinishCause::kError, std::move(status), actions);
      continue;
    }
    Empty(*kept);  // for a trial alone
    suspects_.Begin(suspect, *kept);
    queue_.TakePlace(*suspect);
    Bind(suspect, *kept);
    bound = true;
  }
  suspects_.Keep(kept);
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

// ---- those that wait in vain

bool Admission::AnyCanHold(const Sequence& sequence) const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [&](const AdmissionTarget& target) { return target.CanHold(sequence); });
}

void Admission::SettleWaiting(bool may_come, const std::string& why, Instant now,
                              std::vector<Action>* actions) {
  stranded_.Reset();
  for (Sequence* sequence : requests_.All()) {
    if (sequence->pipeline >= 0) continue;
    if (AnyCanHold(*sequence)) {
      if (stranded_.Erase(*sequence)) queue_.Push(sequence);
      sequence->stranded_since.reset();
      continue;
    }
    if (suspects_.Holds(*sequence)) {
      if (!sequence->stranded_since.has_value()) sequence->stranded_since = now;
    } else if (!stranded_.Holds(*sequence)) {
      queue_.Erase(sequence);
      stranded_.Add(sequence, now);
    }
    const Instant until = stranded_.EndOf(*sequence);
    if (may_come && now < until) {
      stranded_.WaitUntil(until);
      continue;
    }
    std::string text;
    if (may_come) {
      text = absl::StrCat("no pipeline that can go on with it has formed within ",
                          static_cast<int64_t>(Seconds(stranded_.patience())),
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
