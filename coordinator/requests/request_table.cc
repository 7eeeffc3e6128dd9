#include "coordinator/requests/request_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

Sequence* RequestTable::Add(Request request, Instant now) {
  auto sequence = std::make_unique<Sequence>();
  sequence->arrival = ++arrivals_;
  sequence->arrived_at = now;
  sequence->due = std::min(request.deadline, now + kPatience);
  sequence->prompt_tokens = static_cast<int32_t>(request.prompt.size());
  sequence->tokens = std::move(request.prompt);
  if (!request.output.empty() && TUTTI_FAIL_POINT("coordinator.resume_loses_token")) {
    request.output.pop_back();
  }
  sequence->tokens.insert(sequence->tokens.end(), request.output.begin(), request.output.end());
  // Length, end and penalties would count from where the client goes on.
  if (TUTTI_FAIL_POINT("coordinator.resume_counts_anew")) {
    sequence->prompt_tokens = static_cast<int32_t>(sequence->tokens.size());
  }
  request.output = {};
  sequence->numerics = request.numerics;
  if (request.resumes) ++resumed_;
  sequence->request = std::move(request);
  Sequence* const added = sequence.get();
  const RequestId id = added->request.id;
  CHECK(sequences_.emplace(id, std::move(sequence)).second) << "request " << id << " came twice";
  by_arrival_.emplace(added->arrival, added);
  if (added->request.deadline != kInstantNever) deadlines_.emplace(added->request.deadline, id);
  prompt_tokens_ += added->prompt_tokens;
  return added;
}

Sequence* RequestTable::Find(RequestId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void RequestTable::Finish(Sequence* sequence, FinishCause cause, absl::Status status,
                          std::vector<Action>* actions) {
  CHECK((cause == FinishCause::kError) == !status.ok()) << status.ToString();
  CHECK(sequence->stay.blocks.empty()) << "request " << sequence->request.id << " ends with blocks";
  if (status.ok()) {
    ++finished_;
  } else if (absl::IsCancelled(status) || absl::IsAborted(status)) {
    ++cancelled_;
  } else if (absl::IsDeadlineExceeded(status)) {
    ++deadline_exceeded_;
  } else {
    ++failed_;
    if (absl::IsResourceExhausted(status)) ++gave_way_;
  }
  const RequestId id = sequence->request.id;
  FinishRequest finish{.request = id,
                       .cause = cause,
                       .status = std::move(status),
                       .prompt_tokens = sequence->prompt_tokens,
                       .completion_tokens = sequence->output_tokens(),
                       .cached_prompt_tokens = sequence->cached_tokens,
                       .preemptions = sequence->preemptions,
                       .guessed = sequence->guessed,
                       .guessed_right = sequence->guessed_right};
  if (sequence->first_planned_at.has_value()) {
    finish.queue_time = *sequence->first_planned_at - sequence->arrived_at;
  }
  actions->push_back(std::move(finish));
  deadlines_.erase({sequence->request.deadline, id});
  by_arrival_.erase(sequence->arrival);
  sequences_.erase(id);
}

void RequestTable::Refuse(const Request& request, absl::Status status,
                          std::vector<Action>* actions) {
  ++(absl::IsInvalidArgument(status) ? invalid_ : refused_);
  actions->push_back(
      FinishRequest{.request = request.id,
                    .cause = FinishCause::kError,
                    .status = std::move(status),
                    .prompt_tokens = static_cast<int32_t>(request.prompt.size()),
                    .completion_tokens = static_cast<int32_t>(request.output.size())});
}

std::vector<Sequence*> RequestTable::All() const {
  std::vector<Sequence*> all;
  all.reserve(by_arrival_.size());
  for (const auto& [arrival, sequence] : by_arrival_) all.push_back(sequence);
  return all;
}

std::vector<Sequence*> RequestTable::Expired(Instant now) const {
  std::vector<Sequence*> expired;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    expired.push_back(Find(id));
  }
  return expired;
}

Instant RequestTable::next_deadline() const {
  return deadlines_.empty() ? kInstantNever : deadlines_.begin()->first;
}

void RequestTable::FillCounters(v1::RequestCounters* counters) const {
  counters->set_accepted(arrivals_);
  counters->set_finished(finished_);
  counters->set_cancelled(cancelled_);
  counters->set_failed(failed_);
  counters->set_refused(refused_);
  counters->set_deadline_exceeded(deadline_exceeded_);
  counters->set_invalid(invalid_);
  counters->set_prompt_tokens(prompt_tokens_);
  counters->set_generated_tokens(generated_tokens_);
  counters->set_resumed(resumed_);
}

}  // namespace tutti::coordinator
