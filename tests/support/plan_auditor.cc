#include "tests/support/plan_auditor.h"

#include "absl/strings/str_cat.h"

namespace tutti {

void PlanAuditor::BeginEpoch(int32_t num_blocks) {
  num_blocks_ = num_blocks;
  last_step_ = 0;
  known_.clear();
  owner_.clear();
}

std::string PlanAuditor::Check(const v1::StepPlan& plan) {
  const std::string step = absl::StrCat("plan ", plan.step(), ": ");
  if (plan.step() != ++last_step_) return absl::StrCat(step, "expected ", last_step_);
  ++plans_;
  for (const uint64_t id : plan.finished()) {
    if (known_.erase(id) == 0) return absl::StrCat(step, "forgets unknown sequence ", id);
    std::erase_if(owner_, [&](const auto& entry) { return entry.second == id; });
  }
  for (const v1::NewSequence& added : plan.new_sequences()) {
    if (!known_.emplace(added.sequence(), Known{.tokens = added.tokens_size()}).second) {
      return absl::StrCat(step, "sequence ", added.sequence(), " is new twice");
    }
  }
  if (static_cast<int32_t>(known_.size()) > options_->max_sequences) {
    return absl::StrCat(step, "the workers must know ", known_.size(), " sequences, at most ",
                        options_->max_sequences);
  }
  int32_t rows = 0;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    const std::string wrong = CheckScheduled(scheduled);
    if (!wrong.empty()) return absl::StrCat(step, "sequence ", scheduled.sequence(), " ", wrong);
    rows += scheduled.count();
  }
  rows_ += rows;
  if (rows != plan.total_rows()) return absl::StrCat(step, rows, " rows of ", plan.total_rows());
  if (rows < 1 || rows > options_->max_batch_tokens) return absl::StrCat(step, rows, " rows");
  return "";
}

std::string PlanAuditor::CheckScheduled(const v1::ScheduledSequence& scheduled) {
  const auto found = known_.find(scheduled.sequence());
  if (found == known_.end()) return "is not known";
  Known& known = found->second;
  known.tokens += scheduled.new_tokens_size();
  for (const int32_t block : scheduled.new_blocks()) {
    if (block < 0 || block >= num_blocks_) return absl::StrCat("gets block ", block);
    const auto [owner, is_new] = owner_.emplace(block, scheduled.sequence());
    if (!is_new) {
      return absl::StrCat("gets block ", block, " of sequence ", owner->second);
    }
    ++known.blocks;
  }
  if (scheduled.first() != known.computed) {
    return absl::StrCat("goes on at ", scheduled.first(), " instead of ", known.computed);
  }
  if (scheduled.count() < 1 || scheduled.count() > options_->chunk_tokens) {
    return absl::StrCat("computes ", scheduled.count());
  }
  known.computed += scheduled.count();
  if (known.computed > known.tokens) return "computes tokens that nobody has sampled";
  if (known.computed > known.blocks * kSimBlockSize) return "computes without blocks";
  if (scheduled.sample() != (known.computed == known.tokens)) return "samples at the wrong time";
  return "";
}

}  // namespace tutti
