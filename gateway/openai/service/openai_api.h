// OpenAI's HTTP API: which path asks for what, and the requests for generated text that are under
// way. The class is in two files, because requests for tokens generate nothing: token_requests.cc
// has these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/openai/generation_request.h"
#include "gateway/openai/service/keyed_answers.h"
#include "gateway/parse_choice.h"
#include "gateway/service/caller.h"
#include "gateway/service/generations.h"
#include "gateway/service/http_api.h"
#include "gateway/service/loop_jobs.h"

namespace tutti::gateway {

// Thread: the server's loop.
class OpenAiApi : public HttpApi {
 public:
  // REQUIRES: all outlive the API
  OpenAiApi(ParseRules parse_rules, LoopJobs* jobs, const GenerationContext* context);

  std::vector<Route> Routes() override;
  void Tick(Instant now) override;
  void Drain() override { draining_ = true; }
  void EndAll(const ApiError& why) override { generations_.EndAll(why); }
  int64_t keys_not_kept() const override { return keyed_.not_kept(); }

 private:
  void AnswerModels(const Caller& caller);
  void AnswerTokenize(const Caller& caller);
  void AnswerDetokenize(const Caller& caller);

  // Reads the body where that delays nobody, then begins.
  template <typename Read>
  void ReadAndGenerate(const Caller& caller, Read read);
  struct Prepared;
  void Generate(const Caller& caller, Prepared prepared);
  // Whether an answer under its key is there already, and is given to the caller.
  bool ReadAgain(const Caller& caller, const Prepared& prepared, const EventOptions& events);
  // Generates when the ids of its prompts are known, which the service tells.
  void FindPromptIds(const Caller& caller, Prepared prepared);
  // And when their log-probabilities are.
  void ScorePrompts(const Caller& caller, Prepared prepared);

  const ParseRules parse_rules_;
  LoopJobs* const jobs_;
  const GenerationContext& context_;
  Upstream* const upstream_;
  bool draining_ = false;
  Generations generations_;
  KeyedAnswers keyed_;
};

}  // namespace tutti::gateway
