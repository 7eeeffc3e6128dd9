#include "coordinator/pipeline/slow_places.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

std::string SlowPlaces::WhyMove(const Replica& replica, Instant now) {
  // Layers of two kinds are predicted as one (placement/step_cost.h), and dense ones do not slow
  // down with more rows as those with experts do: a change of load would pass for a slow worker.
  if (!options_->model.dense_layers.empty()) return "";
  const std::optional<Pipeline::Stuck> slow = replica.pipeline.FindSlow();
  if (!slow.has_value()) return "";
  Instant& asked_at = asked_at_[replica.id()];
  if (now < asked_at + kPaceWindow) return "";
  asked_at = now;
  Worker* const worker = fleet_->Find(slow->link);
  const bool was_slow = std::exchange(worker->slow, true);
  if (!fleet_->CanFormWithoutSlow(fleet_->membership()->Of(replica.id()), now)) {
    worker->slow = was_slow;
    return "";
  }
  return absl::StrCat(replica.pipeline.Describe(*worker), " ", slow->why);
}

}  // namespace tutti::coordinator
