#include "gateway/openai/service/prompt_scoring.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {

// Hears of one call on gRPC's threads, and tells the loop.
class PromptScoring::Observer : public client::GenerateObserver {
 public:
  Observer(std::shared_ptr<PromptScoring> scoring, size_t number, Place place)
      : server_(scoring->context_.server),
        scoring_(std::move(scoring)),
        number_(number),
        place_(place) {}

  void OnMessage(const v1::GenerateResponse& message) override {
    server_->Post(
        [scoring = scoring_, place = place_, message] { scoring->OnToken(place, message); });
  }
  // Lets go of the scoring, which owns this.
  void OnEnd(absl::Status status) override {
    server_->Post([scoring = std::move(scoring_), number = number_, place = place_,
                   status = std::move(status)] { scoring->OnEnd(number, place, status); });
  }

 private:
  HttpServer* const server_;
  std::shared_ptr<PromptScoring> scoring_;
  const size_t number_;
  const Place place_;
};

PromptScoring::PromptScoring(Caller caller, const GenerationContext* context,
                             std::vector<v1::GenerateRequest> prompts, uint32_t top,
                             std::vector<PromptScores> scores, Done done, Failed failed)
    : caller_(std::move(caller)),
      context_(*context),
      prompts_(std::move(prompts)),
      top_(top),
      scores_(std::move(scores)),
      done_(std::move(done)),
      failed_(std::move(failed)) {}

PromptScoring::~PromptScoring() = default;

void PromptScoring::Start() {
  const std::weak_ptr<PromptScoring> weak = weak_from_this();
  caller_.exchange->OnGone([weak] {
    const auto scoring = weak.lock();
    if (scoring == nullptr) return;
    scoring->stopped_ = true;
    for (const auto& call : scoring->calls_) {
      if (call != nullptr) call->Cancel();
    }
  });
  Go();
}

void PromptScoring::Go() {
  while (!stopped_ && under_way_ < kScoringCallsMax) {
    const std::optional<Place> place = NextPlace();
    if (!place) break;
    Ask(*place);
  }
  if (under_way_ > 0 || stopped_) return;
  stopped_ = true;
  // Nobody listens any more to whether the caller goes: who answers it does.
  caller_.exchange->OnGone([] {});
  done_(std::move(scores_));
}

std::optional<PromptScoring::Place> PromptScoring::NextPlace() {
  for (; prompt_ < prompts_.size(); ++prompt_, asked_ = 0, is_cached_ = false) {
    const size_t last = scores_[prompt_].size() - 1;
    if (asked_ == last) continue;
    // The last first: the others find all before them in the cache.
    if (asked_ == 0) {
      ++asked_;
      return Place{.prompt = prompt_, .token = last};
    }
    if (!is_cached_) return std::nullopt;
    return Place{.prompt = prompt_, .token = asked_++};
  }
  return std::nullopt;
}

void PromptScoring::Ask(Place place) {
  const v1::GenerateRequest& like = prompts_[place.prompt];
  const auto& ids = like.token_ids().ids();
  v1::GenerateRequest call;
  call.set_model(like.model());
  call.set_priority(like.priority());
  call.set_cache_salt(like.cache_salt());
  call.mutable_token_ids()->mutable_ids()->Assign(ids.begin(),
                                                  ids.begin() + static_cast<int>(place.token));
  v1::SamplingParams* const sampling = call.mutable_sampling();
  sampling->set_max_tokens(1);
  sampling->set_temperature(0);
  sampling->set_logprobs(true);
  sampling->set_top_logprobs(top_);
  sampling->add_allowed_token_ids(ids[static_cast<int>(place.token)]);
  call.set_request_id(absl::StrCat("score-", caller_.request_name, "-", calls_.size()));
  const bool named = context_.upstream->model()->may_name_tenants;
  SetTenant(caller_.tenant, named, &call);
  ++under_way_;
  ++context_.upstream->calls;
  observers_.push_back(std::make_unique<Observer>(shared_from_this(), calls_.size(), place));
  client::CallMetadata metadata;
  metadata.account = AccountForService(caller_.tenant, caller_.owner, named);
  calls_.push_back(context_.upstream->client()->Start(
      std::move(call), std::nullopt, observers_.back().get(), std::move(metadata)));
}

void PromptScoring::OnToken(Place place, const v1::GenerateResponse& message) {
  if (message.tokens_size() > 0) scores_[place.prompt][place.token] = message.tokens(0);
}

void PromptScoring::OnEnd(size_t number, Place place, const absl::Status& status) {
  --context_.upstream->calls;
  --under_way_;
  calls_[number] = nullptr;
  if (stopped_) return;
  if (!status.ok()) {
    stopped_ = true;
    for (const auto& call : calls_) {
      if (call != nullptr) call->Cancel();
    }
    caller_.exchange->OnGone([] {});
    return failed_(status, place.prompt);
  }
  if (place.prompt == prompt_) is_cached_ = true;
  Go();
}

}  // namespace tutti::gateway
