// What operators are told of the engine: its status, and which pipelines hold a prompt.
#include "coordinator/engine.h"

namespace tutti::coordinator {

void Engine::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  status->set_model(options_.model_name);
  status->set_model_fingerprint(options_.model_fingerprint);
  status->set_build(options_.build);
  status->set_serving(AnyServing());
  status->set_why_not_serving(WhyNotServing());
  v1::RequestCounters* const counters = status->mutable_requests();
  for (const auto& replica : replicas_) {
    replica->FillStatus(now, status->add_pipelines());
    counters->set_preemptions(counters->preemptions() + replica->scheduler.preemptions());
  }
  admission_.FillStatus(status);
  fleet_.FillStatus(now, status);
  counters->set_stale_frames(stale_frames_);
}

void Engine::LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                          v1::LookupPrefixResponse* response) const {
  response->set_prompt_tokens(static_cast<int32_t>(tokens.size()));
  const Hash128 own = admission_.DomainOfLength(domain, tokens.size());
  for (const KvDirectory::Match& match : directory_.LongestPerPipeline(own, tokens)) {
    replicas_[match.pipeline.value()]->pipeline.FillHolding(match.tokens, response->add_holdings());
  }
}

}  // namespace tutti::coordinator
