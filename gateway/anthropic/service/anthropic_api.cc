#include "gateway/anthropic/service/anthropic_api.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/anthropic/error_form.h"
#include "gateway/anthropic/messages_answer.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

GenerationPlan PlanOfMessages(MessagesRequest request, std::shared_ptr<const ParseOptions> parse,
                              const std::string& name, Upstream* upstream) {
  const std::string& asked = request.calls.front().model();
  const std::string model = asked.empty() ? upstream->model()->model.name() : asked;
  const std::string id = absl::StrCat("msg_", name);
  return {.calls = std::move(request.calls),
          .stream = request.stream,
          .id = id,
          .kind = "message",
          .model = model,
          .make_writer = [stream = request.stream, id, model,
                          parse](const EventOptions&) -> std::unique_ptr<AnswerWriter> {
            return std::make_unique<MessagesAnswer>(stream, id, model, parse);
          },
          .explain =
              [names = request.names, upstream](const absl::Status& status, size_t) {
                return FromStatus(status, names, upstream->model()->model.context_length());
              }};
}

}  // namespace

AnthropicApi::AnthropicApi(ParseRules parse_rules, LoopJobs* jobs, const GenerationContext* context)
    : parse_rules_(parse_rules), jobs_(jobs), context_(*context) {}

std::vector<Route> AnthropicApi::Routes() {
  const auto messages = [this](const Caller& caller) { AnswerMessages(caller); };
  const auto count = [this](const Caller& caller) { AnswerCount(caller); };
  return {
      {.method = "POST",
       .path = "/v1/messages",
       .answer = messages,
       .error_body = AnthropicErrorBody},
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .answer = count,
       .error_body = AnthropicErrorBody},
  };
}

void AnthropicApi::AnswerMessages(const Caller& caller) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  const auto make = [](std::string_view body) -> Made {
    auto json = ParseObject(body);
    if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
    return ReadMessagesRequest(*std::get<ParsedJson>(json), body);
  };
  ReadBody(caller, jobs_, make, [this](const Caller& asker, ReadRequest<Made> read) {
    Generate(asker, std::move(read));
  });
}

void AnthropicApi::Generate(const Caller& caller, ReadRequest<Made> read) {
  if (const auto* error = std::get_if<ApiError>(&read.made)) return caller.ReplyError(*error);
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  auto& request = std::get<MessagesRequest>(read.made);
  const auto model = context_.upstream->model();
  auto parse =
      ChooseParse(parse_rules_, model->form, &request.wishes, &request.names, &request.calls);
  if (const auto* error = std::get_if<ApiError>(&parse)) return caller.ReplyError(*error);
  if (context_.upstream->calls + 1 > kCallsMax) {
    return caller.ReplyError(Unavailable("too many requests are under way"));
  }
  if (!ChargeCalls(request.calls, &read.charge)) return caller.ReplyError(NoMoreBytes());
  GenerationOptions options;
  options.charge = std::move(read.charge);
  GenerationPlan plan = PlanOfMessages(
      std::move(request), std::get<std::shared_ptr<const ParseOptions>>(std::move(parse)),
      caller.request_name, context_.upstream);
  const auto generation =
      std::make_shared<Generation>(caller, std::move(plan), std::move(options), &context_);
  generations_.Add(generation);
  generation->Start();
}

void AnthropicApi::AnswerCount(const Caller& caller) {
  ReadAndAsk<CountRequest>(
      caller, jobs_, ReadCountRequest,
      [caller, upstream = context_.upstream](const CountRequest& count,
                                             client::CancelToken* cancel) -> LoopJobs::Rest {
        const auto tokens = upstream->client()->Tokenize(
            count.request, {.timeout = kTokenizeTimeout, .cancel = cancel});
        if (!tokens.ok()) {
          const ApiError error =
              FromStatus(tokens.status(), count.names, upstream->model()->model.context_length());
          return [caller, error] { caller.ReplyError(error); };
        }
        return [caller, body = Dump({{"input_tokens", tokens->ids_size()}})] {
          caller.ReplyJson(body);
        };
      });
}

}  // namespace tutti::gateway
