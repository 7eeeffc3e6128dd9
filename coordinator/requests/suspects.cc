#include "coordinator/requests/suspects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

void Suspects::Wait(Sequence* sequence) {
  waiting_.emplace(sequence->arrival, sequence);
  ++version_;
}

bool Suspects::Erase(const Sequence& sequence) {
  if (waiting_.erase(sequence.arrival) == 0) return false;
  ++version_;
  return true;
}

std::optional<size_t> Suspects::FindTarget() const {
  if (waiting_.empty()) return std::nullopt;
  std::optional<size_t> fewest;
  for (size_t i = 0; i < targets_->size(); ++i) {
    const AdmissionTarget& target = (*targets_)[i];
    if (!target.takes_new() || !target.CanHold(*first())) continue;
    if (!fewest.has_value() || target.sequences() < (*targets_)[*fewest].sequences()) fewest = i;
  }
  return fewest;
}

void Suspects::Begin(size_t target) {
  alone_[target] = first();
  waiting_.erase(waiting_.begin());
  ++version_;
}

void Suspects::Keep(std::optional<size_t> target) {
  if (std::exchange(kept_, target) != target) ++version_;
}

void Suspects::LetOthersIn(const Sequence* alone) {
  if (std::erase_if(alone_, [&](const auto& one) { return one.second == alone; }) > 0) ++version_;
}

void Suspects::LetOthersIn(size_t target) {
  if (alone_.erase(target) > 0) ++version_;
}

bool Suspects::MayBeCause(const Sequence& sequence, const Scheduler& scheduler) {
  const Sequence::Stay& stay = sequence.stay;
  const bool on_board = stay.planned > stay.computed || stay.rebuilds > 0;
  if (sequence.losses < kLossesSuspected) return on_board;
  return on_board && scheduler.steps().IsAll(stay.id);
}

absl::Status Suspects::GiveUp(const Sequence& sequence, const std::string& why, Instant now) {
  poisons_.Add(sequence.request, sequence.prompt(), now);
  return absl::InternalError(
      absl::StrCat("workers were lost ", kLossesMax, " times in a row while they computed token ",
                   sequence.output_tokens(), " of the output, the last time nothing else: ", why));
}

absl::Status Suspects::Check(const Request& request, std::span<const TokenId> prompt,
                             Instant now) const {
  const std::optional<Duration> left = poisons_.RefusedFor(request, prompt, now);
  if (!left.has_value()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "workers were lost ", kLossesMax,
      " times in a row where a request like this one was computed; it is refused for another ",
      static_cast<int64_t>(Seconds(*left)) + 1, " s"));
}

}  // namespace tutti::coordinator
