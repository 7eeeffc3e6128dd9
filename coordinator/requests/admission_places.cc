// The places in the queue: who gets one, who gives way, and when those sent away come back.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "coordinator/requests/admission.h"

namespace tutti::coordinator {

void Admission::ObservePace(Instant now) {
  pace_.Observe(requests_.places_freed(), requests_.size() > 0, now);
}

// A bound by number, and by time where the operator bounds that.
int64_t Admission::MaxWaiting(Instant now) const {
  const int64_t by_number = options_->max_waiting;
  if (options_->max_wait == Duration()) return by_number;
  const int64_t in_time = pace_.PlacesWithin(options_->max_wait, now);
  return in_time == PlacePace::kPlacesUnknown ? by_number : std::min(by_number, in_time);
}

// Only those that cannot be bound at once take places in the queue: an idle service takes whatever
// it can run, however few may wait.
absl::Status Admission::TakePlaces(const Request& request, int64_t outputs, Instant now,
                                   std::vector<Action>* actions) {
  const int64_t max_waiting = MaxWaiting(now);
  if (Newcomers() + outputs <= max_waiting) return absl::OkStatus();
  BindWaiting(now, actions);
  int64_t places = outputs;
  if (queue_.size() == 0) places -= OutputsWithRoom(request, outputs);
  const int64_t waiting = Newcomers();
  // When the pace slows down fewer may wait than do; those stay.
  const int64_t lacking = std::min(waiting + places - max_waiting, places);
  if (lacking <= 0) return absl::OkStatus();
  const auto refuse = [&](std::string why, int64_t lacks) {
    const Duration delay = pace_.SendAway(lacks, now);
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(why, "; retry after ", DelayText(delay))), delay);
  };
  const std::vector<Sequence*> giving_way = queue_.shares().FindGivingWay(request, places, lacking);
  if (giving_way.empty()) {
    std::string why = waiting == 0 ? "no pipeline has room"
                                   : absl::StrCat(waiting, " requests are waiting already");
    if (max_waiting < options_->max_waiting) {
      absl::StrAppend(&why, ", and no more than ", max_waiting, " could begin within ",
                      DelayText(options_->max_wait), " (--max-wait)");
    }
    if (outputs > 1) {
      absl::StrAppend(&why, ", and ", places, " of n = ", outputs,
                      " outputs would have to wait, where ", max_waiting, " may");
    }
    return refuse(std::move(why), lacking);
  }
  for (Sequence* sequence : giving_way) {
    End(sequence, FinishCause::kError,
        refuse(absl::StrCat(waiting, " requests are waiting, of which this one's owner has most"),
               1),
        actions);
  }
  return absl::OkStatus();
}

// The number of outputs that the pipeline with most room could run at once.
int64_t Admission::OutputsWithRoom(const Request& request, int64_t outputs) const {
  Sequence sequence;
  sequence.request = request;
  sequence.tokens = request.prompt;
  sequence.prompt_tokens = sequence.total();
  sequence.tokens.insert(sequence.tokens.end(), request.output.begin(), request.output.end());
  sequence.numerics = request.numerics;
  const std::vector<int64_t> cached = CachedTokens(request, sequence.tokens);
  int64_t most = 0;
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (!suspects_.TakesOthers(i) || !targets_[i].CanHold(sequence)) continue;
    most = std::max(most, targets_[i].scheduler->OutputsWithRoom(sequence, cached[i], outputs));
  }
  return most;
}

}  // namespace tutti::coordinator
