// OpenAiApi: POST /tokenize and /detokenize.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/caller_rules.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/openai/service/openai_api.h"
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

// A request of its body, with the bytes charged for both in turn.
template <typename Request>
struct Asked {
  int64_t bytes = 0;
  door::ByteBudget::Charge charge;
  std::string body;
  Request request;
};

// Whether there is room for the answer beside the request. What small ones hold counts nowhere.
template <typename Request>
bool HasRoomForAnswer(Asked<Request>* asked) {
  return asked->charge.bytes() == 0 || asked->charge.Resize(asked->bytes * kTokenizeAnswerPerByte);
}

}  // namespace

template <typename Request, typename Read, typename Ask>
void OpenAiApi::ReadAndAsk(const Caller& caller, Read read, Ask ask) {
  HttpRequest& http = caller.exchange->request();
  auto asked = std::make_shared<Asked<Request>>();
  asked->bytes = static_cast<int64_t>(http.body.size());
  asked->charge = std::move(http.charge);
  asked->body = std::move(http.body);
  const auto do_ask = [caller, asked, ask](CancelToken* cancel) -> Rest {
    if (!HasRoomForAnswer(asked.get())) return Fail(caller, NoMoreBytes());
    return ask(asked->request, cancel);
  };
  const int64_t bytes = asked->bytes;
  jobs_->Run(caller, LaneToRead(bytes), bytes,
             [jobs = jobs_, caller, asked, read, do_ask](CancelToken* cancel) -> Rest {
               auto json = ParseObject(asked->body);
               if (const auto* error = std::get_if<ApiError>(&json)) return Fail(caller, *error);
               auto request = read(*std::get<ParsedJson>(json), asked->body);
               if (const auto* error = std::get_if<ApiError>(&request)) {
                 return Fail(caller, *error);
               }
               asked->request = std::get<Request>(std::move(request));
               asked->body = {};
               const Lane lane = LaneToAsk(asked->bytes);
               if (lane == LaneToRead(asked->bytes)) return do_ask(cancel);
               return [jobs, caller, lane, bytes = asked->bytes, do_ask] {
                 jobs->Run(caller, lane, bytes, do_ask);
               };
             });
}

void OpenAiApi::AnswerTokenize(const Caller& caller) {
  ReadAndAsk<TokenizeJob>(
      caller,
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
      caller, [](const Json& json, std::string_view) { return ReadDetokenizeRequest(json); },
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
