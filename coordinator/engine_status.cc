// The engine's answers to operators: its status, which pipelines hold a prompt, and whether it
// serves; and tests, who has to wait.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/engine.h"
#include "coordinator/requests/not_serving.h"
#include "model/quantise_choice.h"

namespace tutti::coordinator {

void Engine::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  status->set_model(options_.model_name);
  status->set_model_fingerprint(
      model::ServedFingerprint(options_.model_fingerprint, options_.model));
  status->set_build(options_.build);
  status->set_serving(AnyServing());
  if (AnyServing() || IsAwaited()) status->set_degraded(WhyNotWhole());
  status->set_why_not_serving(WhyNotServing());
  status->set_cannot_load(cannot_load_);
  v1::RequestCounters* const counters = status->mutable_requests();
  for (const auto& replica : replicas_) {
    replica->FillStatus(now, status->add_pipelines());
    counters->set_preemptions(counters->preemptions() + replica->scheduler.preemptions());
  }
  admission_.FillStatus(now, status);
  fleet_.FillStatus(now, status);
  counters->set_stale_frames(stale_frames_);
}

void Engine::LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                          v1::LookupPrefixResponse* response) const {
  response->set_prompt_tokens(static_cast<int32_t>(tokens.size()));
  const Hash128 own = admission_.DomainOfLength(domain, tokens.size());
  for (const KvDirectory::Match& match : directory_.LongestPerPipeline(own, tokens)) {
    const Replica& replica = *replicas_[match.pipeline.value()];
    // One that has ended may go on with what it held.
    if (replica.serving()) replica.pipeline.FillHolding(match.tokens, response->add_holdings());
  }
}

std::vector<Engine::OutrankedRequest> Engine::Outranked() {
  std::vector<OutrankedRequest> outranked;
  for (const auto& replica : replicas_) {
    for (const RequestId id : replica->scheduler.Outranked()) {
      outranked.push_back({id, replica->id(), replica->scheduler.steps().last_id().value()});
    }
  }
  return outranked;
}

// ---- the whole, as others see it

bool Engine::AnyServing() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [this](const auto& replica) {
    return replica->serving() && retiring_.IsOpen(*replica);
  });
}

// Something serves what it has taken, and takes no more.
bool Engine::AnyLeaving() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [this](const auto& replica) {
    return replica->serving() && !retiring_.IsOpen(*replica);
  });
}

// The answer to newcomers; OK: they are taken.
absl::Status Engine::CheckServing() const {
  const std::string why_not = IsAwaited() ? "" : WhyNotServing();
  return why_not.empty() ? absl::OkStatus() : NotServing(why_not, AnyLeaving());
}

// Nothing serves, but it has until a moment ago: requests are taken and wait.
bool Engine::IsAwaited() const { return awaited_until_ != kInstantNever && now_ < awaited_until_; }

void Engine::On(const Led& event) {
  incarnation_.Lead(event.incarnation, event.judged);
  last_epoch_ = incarnation_.BeforeFirstEpoch();
  stands_by_.clear();
  told_state_.reset();
  state_changed_ = true;
}

void Engine::On(StandsBy event) {
  stands_by_ = absl::StrCat("this coordinator stands by: ", event.why);
  told_state_.reset();
  state_changed_ = true;
}

// "" while some pipeline serves.
std::string Engine::WhyNotServing() const {
  if (!stands_by_.empty()) return stands_by_;
  return AnyServing() ? "" : WhyNotWhole();
}

// The reasons of the pipelines that do not serve, or are made of too few workers; "" while all are
// whole.
std::string Engine::WhyNotWhole() const {
  if (replicas_.size() == 1) return retiring_.WhyNotWhole(*replicas_.front());
  std::vector<std::string> missing;
  for (const auto& replica : replicas_) {
    const std::string why = retiring_.WhyNotWhole(*replica);
    if (why.empty()) continue;
    missing.push_back(absl::StrCat("pipeline ", replica->id().value(), ": ", why));
  }
  return absl::StrJoin(missing, "; ");
}

void Engine::ReportServing() {
  if (!std::exchange(state_changed_, false)) return;
  // The state of the pipeline that has come furthest.
  Pipeline::State state = Pipeline::State::kWaiting;
  for (const auto& replica : replicas_) {
    if (retiring_.IsOpen(*replica)) state = std::max(state, replica->pipeline.state());
  }
  if (state == Pipeline::State::kServing || now_ >= awaited_until_) awaited_until_ = kInstantNever;
  if (IsAwaited()) state = Pipeline::State::kServing;
  if (told_state_ == state) return;
  told_state_ = state;
  const bool serving = state == Pipeline::State::kServing;
  actions_->push_back(ServingChanged{serving, serving ? "" : WhyNotServing(), AnyLeaving()});
}

}  // namespace tutti::coordinator
