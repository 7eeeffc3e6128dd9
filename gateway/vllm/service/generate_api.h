// vLLM's path for ids in, ids out, and the requests under way.
#pragma once

#include <variant>
#include <vector>

#include "gateway/service/generations.h"
#include "gateway/service/http_api.h"
#include "gateway/service/loop_jobs.h"
#include "gateway/service/read_body.h"
#include "gateway/vllm/generate_request.h"

namespace tutti::gateway {

// Thread: the server's loop.
class GenerateApi : public HttpApi {
 public:
  // REQUIRES: all outlive the API
  GenerateApi(LoopJobs* jobs, const GenerationContext* context) : jobs_(jobs), context_(*context) {}

  std::vector<Route> Routes() override;
  void Tick(Instant now) override { generations_.Tick(now); }
  void Drain() override { draining_ = true; }
  void EndAll(const ApiError& why) override { generations_.EndAll(why); }

 private:
  using Made = std::variant<IdsRequest, ApiError>;

  void Answer(const Caller& caller);
  void Generate(const Caller& caller, ReadRequest<Made> read);

  LoopJobs* const jobs_;
  const GenerationContext& context_;
  bool draining_ = false;
  Generations generations_;
};

}  // namespace tutti::gateway
