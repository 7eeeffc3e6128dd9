// Rows of those who generate: how many a step has, and whose turn it is.
#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {

// Generating sequences are divided evenly over the steps under way, so that each stage has one of
// the steps.
int32_t Scheduler::EvenShare() const {
  return std::max(1, (Generating() + num_stages_ - 1) / num_stages_);
}

// Whether the next newcomer is of an owner of whom nothing runs: the step that it comes in with is
// short already. Where steps are short anyway nobody is looked for among all that wait.
bool Scheduler::AnotherOwnerComes() {
  if (time_.times() == nullptr || Generating() <= 1 || backlog_.waiting().empty()) return false;
  if (one_behind_.owners() > 1 && one_behind_.fewest_of_owner() == 1) return false;
  const std::optional<Newcomer> newcomer = FindNewcomer();
  if (!newcomer.has_value()) return false;
  scratch_.its_class = newcomer->sequence->request.priority;
  return !one_behind_.has(newcomer->sequence->request.owner_id());
}

// The rows that a step would have if nobody had more sequences beside those of others: one for each
// request, and as many for each owner as the one that has fewest. A class has what it would have
// without those after it, of which each owner has one. Nothing: nobody is beside others.
std::optional<int32_t> Scheduler::ModestRows() const {
  const int32_t requests = shares_.requests_running();
  const int32_t owners = one_behind_.owners() + (scratch_.another_owner ? 1 : 0);
  if (owners <= 1) return requests > 1 ? std::optional(requests) : std::nullopt;
  const auto& [priority, first] = one_behind_.first_class();
  const bool comes = scratch_.another_owner && scratch_.its_class <= priority;
  const int32_t own = static_cast<int32_t>(first.owners.size()) + (comes ? 1 : 0);
  const int32_t later = std::max(0, owners - own);
  if (own == 1) return first.running + later;
  const int32_t fewest = comes ? 1 : first.fewest_of_owner();
  return std::min(std::max(first.requests, own), own * fewest) + later;
}

// Who is alone has the whole pipeline. Beside others no step is made longer by more than half of
// what it would take with modest rows and the rows of a prompt, or by half as many rows again.
int32_t Scheduler::Share() const {
  const int32_t even = EvenShare();
  const std::optional<int32_t> modest = ModestRows();
  if (!modest.has_value()) return even;
  const int32_t each = (*modest + num_stages_ - 1) / num_stages_;
  const int32_t least = each + (each + 1) / 2;
  if (even <= least || time_.times() == nullptr) return even;
  const auto seconds = [this](int32_t rows) {
    return time_.times()->Predict({.rows = static_cast<double>(rows)});
  };
  const std::optional<double> quick = seconds(each);
  if (!quick.has_value()) return even;
  // The rows of a prompt beside them make the step long anyway.
  const int32_t room = std::max(0, options_.max_batch_tokens - each);
  const auto& behind = backlog_.behind();
  const int32_t prompts = behind.empty() ? 0 : std::min(room, behind.begin()->second->behind());
  double whole = *seconds(each + prompts);
  if (options_.itl_target > Duration()) {
    whole = std::clamp(Seconds(options_.itl_target), *quick, std::max(*quick, whole));
  }
  const double most = *quick + (kQuickStep - 1) * whole;
  const auto fits = [&](int32_t rows) { return *seconds(rows) <= most; };
  if (fits(even)) return even;
  int32_t share = least;
  for (int32_t more = share; more < even && fits(more); more += (more + 15) / 16) share = more;
  return share;
}

void Scheduler::ContinueRunning() {
  const int32_t rows = std::min(options_.max_batch_tokens, kStepSequencesMax) - RowsForPrompts();
  const int32_t ready = one_behind_.size();
  int32_t share = std::min({Share(), rows, ready});
  if (share == rows && share > 1 && !late_.empty()) --share;
  const int32_t late = std::min(rows - share, std::max(1, share / 2));
  while (share > 0 && !one_behind_.empty()) {
    Sequence* const sequence = one_behind_.Take();
    if (!GrowBlocks(sequence)) continue;
    Schedule(sequence, 1);
    --share;
  }
  // In a step of their own the last stage would wait for their masks, and others for that stage.
  if (ready > 0) ContinueLate(late);
}

// They come with steps of others, which they make no longer than by half.
void Scheduler::ContinueLate(int32_t rows_max) {
  came_back_.clear();
  late_.TakeDue(steps_.last_id().value() + 1, rows_max, &came_back_);
  for (Sequence* const sequence : came_back_) {
    if (GrowBlocks(sequence)) Schedule(sequence, 1);
  }
}

// Late rows that take turns as any row does: so many of those that are due, or all.
void Scheduler::PutLateInLine(std::optional<int32_t> due) {
  came_back_.clear();
  if (due.has_value()) {
    late_.TakeDue(steps_.last_id().value() + 1, *due, &came_back_);
  } else {
    late_.TakeAll(&came_back_);
  }
  for (Sequence* const sequence : came_back_) one_behind_.Add(sequence);
}

}  // namespace tutti::coordinator
