// OpenAiApi: POST /tokenize and /detokenize.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/openai/service/openai_api.h"
#include "gateway/openai/service_error.h"

namespace tutti::gateway {
namespace {

std::string TokenizeBody(const v1::TokenizeResponse& response, bool with_texts, uint32_t context) {
  OrderedJson body;
  body["count"] = response.ids_size();
  body["max_model_len"] = context;
  body["tokens"] = std::vector<int32_t>(response.ids().begin(), response.ids().end());
  if (with_texts) {
    body["token_strs"] =
        std::vector<std::string>(response.tokens().begin(), response.tokens().end());
  }
  return Dump(body);
}

}  // namespace

void OpenAiApi::AnswerTokenize(const Caller& caller) {
  const Lane lane = LaneOf(caller.exchange->request().body.size());
  jobs_->Run(caller, lane,
             [upstream = upstream_, caller,
              body = std::move(caller.exchange->request().body)]() -> std::function<void()> {
               const auto fail = [caller](const ApiError& error) {
                 return [caller, error] { caller.ReplyError(error); };
               };
               auto json = ParseObject(body);
               if (const auto* error = std::get_if<ApiError>(&json)) return fail(*error);
               auto read = ReadTokenizeRequest(std::get<Json>(json), body);
               if (const auto* error = std::get_if<ApiError>(&read)) return fail(*error);
               const auto& job = std::get<TokenizeJob>(read);
               const auto tokens =
                   upstream->client()->Tokenize(job.request, {.timeout = kTokenizeTimeout});
               const uint32_t context = upstream->model()->model.context_length();
               if (!tokens.ok()) return fail(FromStatus(tokens.status(), job.names, context));
               return [caller, text = TokenizeBody(*tokens, job.with_texts, context)] {
                 caller.ReplyJson(text);
               };
             });
}

void OpenAiApi::AnswerDetokenize(const Caller& caller) {
  const Lane lane = LaneOf(caller.exchange->request().body.size());
  jobs_->Run(caller, lane,
             [upstream = upstream_, caller,
              body = std::move(caller.exchange->request().body)]() -> std::function<void()> {
               const auto fail = [caller](const ApiError& error) {
                 return [caller, error] { caller.ReplyError(error); };
               };
               auto json = ParseObject(body);
               if (const auto* error = std::get_if<ApiError>(&json)) return fail(*error);
               auto read = ReadDetokenizeRequest(std::get<Json>(json));
               if (const auto* error = std::get_if<ApiError>(&read)) return fail(*error);
               const auto text = upstream->client()->Detokenize(
                   std::get<v1::DetokenizeRequest>(read), {.timeout = kTokenizeTimeout});
               if (!text.ok()) return fail(FromStatus(text.status(), {}, 0));
               return [caller, body = Dump({{"prompt", text->text()}})] { caller.ReplyJson(body); };
             });
}

}  // namespace tutti::gateway
