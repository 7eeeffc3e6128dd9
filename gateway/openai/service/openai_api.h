// OpenAI's HTTP API: which path asks for what, and the requests for generated text that are under
// way. The class is in two files, because requests for tokens generate nothing: token_requests.cc
// has these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/parse_choice.h"
#include "gateway/service/generation.h"
#include "gateway/openai/service/keyed_answers.h"
#include "gateway/service/caller.h"
#include "gateway/service/loop_jobs.h"
#include "gateway/service/route.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"
#include "metrics/span_writer.h"

namespace tutti::gateway {

// Thread: the server's loop.
class OpenAiApi {
 public:
  // `spans`: null: nothing is traced.  REQUIRES: all outlive the API
  OpenAiApi(ParseRules parse_rules, Upstream* upstream, LoopJobs* jobs, Traffic* traffic,
            metrics::SpanWriter* spans);
  // Called before any request.
  void set_server(HttpServer* server) { server_ = server; }

  // Good for as long as this lives.
  std::vector<Route> Routes();
  // Every kTick.
  void Tick();
  // From now on nothing new is generated.
  void Drain() { draining_ = true; }
  // Answers with an Idempotency-Key that were not kept, since the beginning.
  int64_t keys_not_kept() const { return keyed_.not_kept(); }
  // Ends what is being generated.
  void EndAll(const ApiError& why);

 private:
  void AnswerModels(const Caller& caller);
  void AnswerTokenize(const Caller& caller);
  void AnswerDetokenize(const Caller& caller);

  // Reads the body, asks the service, and answers, where that delays nobody.
  template <typename Request, typename Read, typename Ask>
  void ReadAndAsk(const Caller& caller, Read read, Ask ask);
  // Reads the body where that delays nobody, then begins.
  template <typename Read>
  void ReadAndGenerate(const Caller& caller, Read read);
  struct Prepared;
  void Generate(const Caller& caller, Prepared prepared);
  // Whether an answer under its key is there already, and is given to the caller.
  bool ReadAgain(const Caller& caller, const Prepared& prepared, const EventOptions& events);
  // Generates when the ids of its prompts are known, which the service tells.
  void FindPromptIds(const Caller& caller, Prepared prepared);

  const ParseRules parse_rules_;
  Upstream* const upstream_;
  LoopJobs* const jobs_;
  Traffic* const traffic_;
  metrics::SpanWriter* const spans_;
  HttpServer* server_ = nullptr;
  bool draining_ = false;
  std::vector<std::weak_ptr<Generation>> generations_;
  KeyedAnswers keyed_;
};

}  // namespace tutti::gateway
