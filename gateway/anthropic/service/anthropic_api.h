// Anthropic's Messages API: its paths, and the requests for generated text that are under way.
#pragma once

#include <variant>
#include <vector>

#include "gateway/anthropic/messages_request.h"
#include "gateway/parse_choice.h"
#include "gateway/service/caller.h"
#include "gateway/service/generations.h"
#include "gateway/service/http_api.h"
#include "gateway/service/loop_jobs.h"
#include "gateway/service/read_body.h"

namespace tutti::gateway {

// Thread: the server's loop.
class AnthropicApi : public HttpApi {
 public:
  // REQUIRES: all outlive the API
  AnthropicApi(ParseRules parse_rules, LoopJobs* jobs, const GenerationContext* context);

  std::vector<Route> Routes() override;
  void Tick(Instant now) override { generations_.Tick(now); }
  void Drain() override { draining_ = true; }
  void EndAll(const ApiError& why) override { generations_.EndAll(why); }

 private:
  using Made = std::variant<MessagesRequest, ApiError>;

  void AnswerMessages(const Caller& caller);
  void AnswerCount(const Caller& caller);
  void Generate(const Caller& caller, ReadRequest<Made> read);

  const ParseRules parse_rules_;
  LoopJobs* const jobs_;
  const GenerationContext& context_;
  bool draining_ = false;
  Generations generations_;
};

}  // namespace tutti::gateway
