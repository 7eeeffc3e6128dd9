#include "tests/support/plan_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti::tests {

std::optional<int32_t> PlanWatch::Check(const std::string& worker, Link* link,
                                        const v1::Frame& frame) {
  if (frame.has_assign_shard() && frame.assign_shard().standby()) return {};  // of no pipeline
  if (frame.has_assign_shard()) {
    link->pipeline = frame.assign_shard().pipeline();
    link->step = 0;
  }
  Audit& audit = audits_.try_emplace(link->pipeline, options_).first->second;
  if (frame.has_assign_shard() && frame.epoch() != audit.epoch) {
    if (frame.epoch() <= last_epoch_) fail_("an epoch comes twice");
    audit.epoch = last_epoch_ = frame.epoch();
    audit.step = 0;
    ++epochs_;
    audit.auditor.BeginEpoch(frame.assign_shard().num_blocks());
  }
  if (!frame.has_step_plan()) return {};
  if (frame.epoch() != audit.epoch) fail_("a plan of another epoch than the assigned one");
  return CheckPlan(worker, link, frame.step_plan());
}

void PlanWatch::Hear(const Link& link, const v1::Frame& frame) {
  const auto audit = audits_.find(link.pipeline);
  if (!frame.has_step_result() || audit == audits_.end()) return;
  if (frame.epoch() == audit->second.epoch) audit->second.auditor.TakeDrafts(frame.step_result());
}

std::optional<int32_t> PlanWatch::CheckPlan(const std::string& worker, Link* link,
                                            const v1::StepPlan& plan) {
  if (plan.probe()) {
    if (plan.step() != 0 || link->step != 0) fail_(absl::StrCat(worker, ": late probe"));
    return {};
  }
  if (plan.step() != ++link->step) fail_(absl::StrCat(worker, " misses a step"));
  Audit& audit = audits_.at(link->pipeline);
  const std::string text = plan.SerializeAsString();
  if (plan.step() == audit.step) {
    if (text != audit.plan) fail_(absl::StrCat(worker, " gets another plan"));
    return {};
  }
  audit.step = plan.step();
  audit.plan = text;
  const std::string wrong = audit.auditor.Check(plan);
  if (!wrong.empty()) fail_(absl::StrCat("pipeline ", link->pipeline, ": ", wrong));
  return plan.total_rows();
}

void PlanWatch::Fill(SimReport* report) const {
  report->epochs = epochs_;
  for (const auto& [pipeline, audit] : audits_) {
    report->plans += audit.auditor.plans();
    report->rows += audit.auditor.rows();
    report->guesses += audit.auditor.guesses();
    report->right_guesses += audit.auditor.right_guesses();
    report->plan_bytes = std::max(report->plan_bytes, audit.auditor.largest_bytes());
  }
}

}  // namespace tutti::tests
