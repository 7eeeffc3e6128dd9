#include "worker/stage_part.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti::worker {

StagePart PartOf(const v1::StepPlan& plan, int32_t stage, int32_t num_stages) {
  if (plan.total_rows() == 0) return {.computes = true};
  if (!plan.has_rebuild()) {
    return {.takes_rows = stage > 0, .computes = true, .passes_on = stage + 1 < num_stages};
  }
  const int32_t first = plan.rebuild().first_stage();
  const int32_t last = plan.rebuild().last_stage();
  const bool computes = first <= stage && stage <= last;
  const bool replays = stage + 1 == first;
  return {.takes_rows = computes && stage > 0,
          .computes = computes,
          .replays = replays,
          .passes_on = replays || (computes && stage < last)};
}

absl::Status CheckRebuild(const v1::StepPlan& plan, int32_t num_stages) {
  if (!plan.has_rebuild()) return absl::OkStatus();
  const v1::Rebuild& rebuild = plan.rebuild();
  if (rebuild.first_stage() < 0 || rebuild.last_stage() < rebuild.first_stage() ||
      rebuild.last_stage() >= num_stages) {
    return absl::InvalidArgumentError(absl::StrCat("step ", plan.step(), " rebuilds stages ",
                                                   rebuild.first_stage(), " to ",
                                                   rebuild.last_stage(), " of ", num_stages));
  }
  const bool samples =
      std::any_of(plan.scheduled().begin(), plan.scheduled().end(),
                  [](const v1::ScheduledSequence& scheduled) { return scheduled.sample(); });
  const bool drafts = std::any_of(
      plan.scheduled().begin(), plan.scheduled().end(),
      [](const v1::ScheduledSequence& scheduled) { return scheduled.has_drafts(); });
  if (plan.probe() || samples || drafts) {
    return absl::InvalidArgumentError(absl::StrCat("step ", plan.step(), " rebuilds and ",
                                                   samples  ? "samples"
                                                   : drafts ? "drafts"
                                                            : "probes"));
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
