// OpenAiApi: POST /tokenize and /detokenize.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/openai/service/openai_api.h"
#include "gateway/service/read_body.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

using Rest = LoopJobs::Rest;
using client::CancelToken;

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

Rest Fail(const Caller& caller, const ApiError& error) {
  return [caller, error] { caller.ReplyError(error); };
}

}  // namespace

void OpenAiApi::AnswerTokenize(const Caller& caller) {
  ReadAndAsk<TokenizeJob>(
      caller, jobs_,
      [](const Json& json, std::string_view body) { return ReadTokenizeRequest(json, body); },
      [caller, upstream = upstream_](const TokenizeJob& job, CancelToken* cancel) -> Rest {
        const auto tokens = upstream->client()->Tokenize(
            job.request, {.timeout = kTokenizeTimeout, .cancel = cancel});
        const uint32_t context = upstream->model()->model.context_length();
        if (!tokens.ok()) return Fail(caller, FromStatus(tokens.status(), job.names, context));
        return [caller, text = TokenizeBody(*tokens, job.with_texts, context)]() mutable {
          caller.ReplyJson(std::move(text));
        };
      });
}

void OpenAiApi::AnswerDetokenize(const Caller& caller) {
  ReadAndAsk<v1::DetokenizeRequest>(
      caller, jobs_, [](const Json& json, std::string_view) { return ReadDetokenizeRequest(json); },
      [caller, upstream = upstream_](const v1::DetokenizeRequest& request,
                                     CancelToken* cancel) -> Rest {
        const auto text = upstream->client()->Detokenize(
            request, {.timeout = kTokenizeTimeout, .cancel = cancel});
        if (!text.ok()) return Fail(caller, FromStatus(text.status(), {}, 0));
        return [caller, body = Dump({{"prompt", text->text()}})]() mutable {
          caller.ReplyJson(std::move(body));
        };
      });
}

}  // namespace tutti::gateway
