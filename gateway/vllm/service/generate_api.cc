#include "gateway/vllm/service/generate_api.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gateway/caller_rules.h"
#include "gateway/limits.h"
#include "gateway/service_error.h"
#include "gateway/vllm/generate_answer.h"

namespace tutti::gateway {
namespace {

GenerationPlan PlanOfIds(IdsRequest request, const std::string& name, Upstream* upstream) {
  // The prompt may be large: nobody copies it but who wants it back.
  std::vector<v1::GenerateRequest> calls = std::exchange(request.calls, {});
  const v1::GenerateRequest& call = calls.front();
  const std::string model = call.model().empty() ? upstream->model()->model.name() : call.model();
  const std::string id = request.request_id.empty() ? name : request.request_id;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const size_t outputs = std::max(call.n(), 1u);
  std::vector<int32_t> prompt_ids;
  if (request.with_prompt_ids) {
    prompt_ids.assign(call.token_ids().ids().begin(), call.token_ids().ids().end());
  }
  *request.calls.emplace_back().mutable_sampling() = call.sampling();
  return {.calls = std::move(calls),
          .stream = request.stream,
          .id = id,
          .kind = "ids",
          .model = model,
          .make_writer = [shape = request, prompt_ids, outputs, id, created,
                          model](const EventOptions&) -> std::unique_ptr<AnswerWriter> {
            return std::make_unique<IdsAnswer>(shape, prompt_ids, outputs, id, created, model);
          },
          .explain =
              [names = request.names, upstream](const absl::Status& status, size_t) {
                return FromStatus(status, names, upstream->model()->model.context_length());
              }};
}

}  // namespace

std::vector<Route> GenerateApi::Routes() {
  return {{.method = "POST",
           .path = "/inference/v1/generate",
           .answer = [this](const Caller& caller) { Answer(caller); }}};
}

void GenerateApi::Answer(const Caller& caller) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  const auto make = [](std::string_view body) -> Made {
    auto json = ParseObject(body);
    if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
    return ReadIdsRequest(*std::get<ParsedJson>(json));
  };
  ReadBody(caller, jobs_, make, [this](const Caller& asker, ReadRequest<Made> read) {
    Generate(asker, std::move(read));
  });
}

void GenerateApi::Generate(const Caller& caller, ReadRequest<Made> read) {
  if (const auto* error = std::get_if<ApiError>(&read.made)) return caller.ReplyError(*error);
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  auto& request = std::get<IdsRequest>(read.made);
  if (const auto said = CheckPriority(request.calls.front().priority()); !said.ok()) {
    return caller.ReplyError(FromStatus(said, request.names, 0));
  }
  if (context_.upstream->calls + 1 > kCallsMax) {
    return caller.ReplyError(Unavailable("too many requests are under way"));
  }
  if (!ChargeCalls(request.calls, &read.charge)) return caller.ReplyError(NoMoreBytes());
  GenerationOptions options;
  options.charge = std::move(read.charge);
  const auto generation = std::make_shared<Generation>(
      caller, PlanOfIds(std::move(request), caller.request_name, context_.upstream),
      std::move(options), &context_);
  generations_.Add(generation);
  generation->Start();
}

}  // namespace tutti::gateway
