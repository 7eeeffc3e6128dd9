#include "coordinator/requests/suspects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

// ---- losses

std::optional<uint64_t> Suspects::BeginLoss(LossCause cause, const std::string& worker,
                                            const std::string& why, Instant now) {
  begun_.reset();
  if (cause == LossCause::kNobody) return std::nullopt;
  ++last_loss_;
  if (cause == LossCause::kFailed) return last_loss_;
  OpenLoss loss{.until = now + kVerdictPatience, .silent = cause == LossCause::kSilent};
  loss.finding.loss = last_loss_;
  loss.finding.why = why;
  begun_.emplace(worker, std::move(loss));
  return last_loss_;
}

void Suspects::Accuse(uint64_t loss, Sequence* sequence, const Scheduler& scheduler) {
  const Sequence::Stay& stay = sequence->stay;
  const int32_t published = stay.published * scheduler.block_size();
  // Of a rebuild every row before may be computed.
  const int32_t first = stay.rebuilds > 0 ? 0 : stay.computed;
  const int32_t planned = stay.planned + scheduler.steps().GuessesOf(stay.id);
  const int32_t end = stay.rebuilds > 0 ? std::max(published, planned) : planned;
  if (first >= end) return;
  const bool alone = scheduler.steps().IsAll(stay.id);
  const bool suspected = sequence->suspicion.verdict() != Suspicion::Verdict::kFree;
  if (suspected && !alone) return;
  sequence->suspicion.Accuse({.loss = loss,
                              .first = first,
                              .end = end,
                              .alone = alone && scheduler.alone() == sequence,
                              .proven = !begun_.has_value()});
  if (!begun_.has_value()) return;
  OpenLoss& open = open_[begun_->first];
  if (open.finding.loss != loss) open = begun_->second;
  open.finding.accused.push_back(sequence->request.id);
}

std::optional<LossFinding> Suspects::OnJoined(const std::string& worker, bool same_process) {
  const auto found = open_.find(worker);
  if (found == open_.end()) return std::nullopt;
  LossFinding finding = std::move(found->second.finding);
  open_.erase(found);
  finding.died = !same_process || TUTTI_FAIL_POINT("coordinator.lease_is_death");
  return finding;
}

std::vector<LossFinding> Suspects::FindOverdue(Instant now) {
  std::vector<LossFinding> overdue;
  for (auto one = open_.begin(); one != open_.end();) {
    if (one->second.until > now) {
      ++one;
      continue;
    }
    overdue.push_back(std::move(one->second.finding));
    overdue.back().died = !one->second.silent;
    one = open_.erase(one);
  }
  return overdue;
}

void Suspects::Forgive(Duration stall) {
  for (auto& [worker, loss] : open_) loss.until += stall;
}

Instant Suspects::next_deadline() const {
  Instant next = kInstantNever;
  for (const auto& [worker, loss] : open_) next = std::min(next, loss.until);
  return next;
}

// ---- those that wait

void Suspects::Wait(Sequence* sequence) {
  waiting_.emplace(sequence->arrival, sequence);
  ++version_;
}

bool Suspects::Erase(const Sequence& sequence) {
  if (waiting_.erase(sequence.arrival) == 0) return false;
  ++version_;
  return true;
}

Sequence* Suspects::Next() const {
  for (const auto& [arrival, sequence] : waiting_) {
    if (sequence->suspicion.verdict() != Suspicion::Verdict::kOpen) return sequence;
  }
  return nullptr;
}

// ---- pipelines

std::optional<size_t> Suspects::FindTarget() const {
  const Sequence* const next = Next();
  if (next == nullptr) return std::nullopt;
  std::optional<size_t> fewest;
  for (size_t i = 0; i < targets_->size(); ++i) {
    const AdmissionTarget& target = (*targets_)[i];
    if (!target.takes_new() || !target.CanHold(*next)) continue;
    if (!fewest.has_value() || target.sequences() < (*targets_)[*fewest].sequences()) fewest = i;
  }
  return fewest;
}

void Suspects::Begin(Sequence* sequence, size_t target) {
  waiting_.erase(sequence->arrival);
  (*targets_)[target].scheduler->SetAlone(sequence);
  ++trials_;
  ++version_;
}

void Suspects::Keep(std::optional<size_t> target) {
  if (std::exchange(kept_, target) != target) ++version_;
}

void Suspects::LetOthersIn(size_t target) {
  if (!IsTaken(target)) return;
  (*targets_)[target].scheduler->SetAlone(nullptr);
  --trials_;
  ++version_;
}

std::vector<size_t> Suspects::FindCleared() const {
  std::vector<size_t> cleared;
  for (size_t i = 0; trials_ > 0 && i < targets_->size(); ++i) {
    const Sequence* const alone = (*targets_)[i].scheduler->alone();
    if (alone == nullptr || alone->suspicion.verdict() != Suspicion::Verdict::kFree) continue;
    cleared.push_back(i);
  }
  return cleared;
}

// ---- requests that were given up

absl::Status Suspects::GiveUp(const Sequence& sequence, const std::string& why, Instant now) {
  poisons_.Add(sequence.request, sequence.prompt(), now);
  return absl::InternalError(absl::StrCat("workers were lost ", sequence.suspicion.losses(),
                                          " times in a row while they computed token ",
                                          sequence.output_tokens(),
                                          " of the output, the last time nothing else: ", why));
}

absl::Status Suspects::Check(const Request& request, std::span<const TokenId> prompt,
                             Instant now) const {
  const std::optional<Duration> left = poisons_.RefusedFor(request, prompt, now);
  if (!left.has_value()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("workers were lost several times in a row where ", kSentencesOfLikes,
                   " requests like this one were computed; it is refused for another ",
                   static_cast<int64_t>(Seconds(*left)) + 1, " s"));
}

}  // namespace tutti::coordinator
