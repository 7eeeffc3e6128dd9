#include "coordinator/requests/recovery_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

uint64_t RecoveryLog::Begin(PipelineId pipeline, const std::string& cause, int32_t sequences,
                            Duration unheard, Instant now) {
  if (recoveries_.size() == kRecoveriesTold) recoveries_.pop_back();
  Recovery& recovery = recoveries_.emplace_front();
  recovery.number = ++begun_;
  recovery.began = now;
  recovery.missing = sequences;
  recovery.told.set_pipeline(pipeline.value());
  recovery.told.set_cause(cause);
  recovery.told.set_sequences(sequences);
  recovery.told.set_unheard_ms(Milliseconds(unheard));
  return recovery.number;
}

void RecoveryLog::OnMilestone(PipelineId pipeline, Milestone milestone, Instant now) {
  for (Recovery& recovery : recoveries_) {
    v1::Recovery& told = recovery.told;
    if (told.pipeline() != pipeline.value() || told.serving_ms() > 0) continue;
    const double after = Milliseconds(now - recovery.began);
    if (milestone == Milestone::kFormed) told.set_formed_ms(after);
    if (milestone == Milestone::kLoaded) told.set_loaded_ms(after);
    if (milestone == Milestone::kServing) told.set_serving_ms(after);
  }
}

RecoveryLog::Recovery* RecoveryLog::Find(uint64_t number) {
  const auto found = std::find_if(recoveries_.begin(), recoveries_.end(),
                                  [&](const Recovery& one) { return one.number == number; });
  return found == recoveries_.end() ? nullptr : &*found;
}

void RecoveryLog::Forget(uint64_t recovery) {
  Recovery* const found = Find(recovery);
  if (found != nullptr) --found->missing;
}

std::optional<std::string> RecoveryLog::OnSequence(uint64_t recovery, Instant now) {
  ++recovered_;
  Recovery* const found = Find(recovery);
  if (found == nullptr || --found->missing > 0) return std::nullopt;
  v1::Recovery& told = found->told;
  told.set_recovered_ms(Milliseconds(now - found->began));
  return absl::StrFormat(
      "%d sequences of pipeline %d went on %.0f ms after its end (unheard before %.0f ms, formed "
      "%.0f, loaded %.0f, serving %.0f)",
      told.sequences(), told.pipeline(), told.recovered_ms(), told.unheard_ms(), told.formed_ms(),
      told.loaded_ms(), told.serving_ms());
}

void RecoveryLog::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  for (const Recovery& recovery : recoveries_) {
    v1::Recovery& told = *status->add_recoveries();
    told = recovery.told;
    told.set_seconds_ago(Seconds(now - recovery.began));
  }
  status->mutable_requests()->set_recovered(recovered_);
}

}  // namespace tutti::coordinator
