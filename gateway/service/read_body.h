// Reads the body of a request where that delays nobody, and goes on with it.
//
// Thread: the server's loop.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "door/byte_budget.h"
#include "gateway/caller_rules.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/service/loop_jobs.h"

namespace tutti::gateway {

// Of a body: what was made of it, its bytes, and where these are many the charge for them.
template <typename Made>
struct ReadRequest {
  int64_t bytes = 0;
  door::ByteBudget::Charge charge;  // given back after what is made
  Made made;
};

// Makes something of the body (`make(text)`), on a thread of its own where it is large, then does
// the rest on the loop: `then(caller, ReadRequest<Made>)`. Both are copied.
template <typename Make, typename Then>
void ReadBody(const Caller& caller, LoopJobs* jobs, Make make, Then then) {
  using Made = decltype(make(std::string_view()));
  using Read = ReadRequest<Made>;
  HttpRequest& request = caller.exchange->request();
  const auto bytes = static_cast<int64_t>(request.body.size());
  if (request.body.size() <= kInlineBodyBytesMax) {
    return then(caller, Read{.bytes = bytes, .charge = {}, .made = make(request.body)});
  }
  // It may be large: nobody copies it.
  struct Body {
    door::ByteBudget::Charge charge;  // given back after the text
    std::string text;
  };
  auto body = std::make_shared<Body>(
      Body{.charge = std::move(request.charge), .text = std::move(request.body)});
  jobs->Run(caller, Lane::kLong, bytes, [caller, make, then, body, bytes](auto*) -> LoopJobs::Rest {
    auto read =
        std::make_shared<Read>(Read{.bytes = bytes, .charge = {}, .made = make(body->text)});
    read->charge = std::move(body->charge);
    body->text = {};
    return [caller, then, read] { then(caller, std::move(*read)); };
  });
}

// Makes a request of the body's JSON (`make(json, text)`: it, or an ApiError), asks the service
// (`ask(request, cancel)`) on a thread that may block, and does what that returns on the loop.
template <typename Request, typename Make, typename Ask>
void ReadAndAsk(const Caller& caller, LoopJobs* jobs, Make make, Ask ask) {
  using Rest = LoopJobs::Rest;
  struct Asked {
    int64_t bytes = 0;
    door::ByteBudget::Charge charge;
    std::string body;
    Request request;
  };
  HttpRequest& http = caller.exchange->request();
  auto asked = std::make_shared<Asked>();
  asked->bytes = static_cast<int64_t>(http.body.size());
  asked->charge = std::move(http.charge);
  asked->body = std::move(http.body);
  const auto fail = [caller](const ApiError& error) -> Rest {
    return [caller, error] { caller.ReplyError(error); };
  };
  const auto do_ask = [asked, ask, fail](client::CancelToken* cancel) -> Rest {
    // Room for the answer beside the request. What small ones hold counts nowhere.
    if (asked->charge.bytes() > 0 && !asked->charge.Resize(asked->bytes * kTokenizeAnswerPerByte)) {
      return fail(NoMoreBytes());
    }
    return ask(asked->request, cancel);
  };
  const int64_t bytes = asked->bytes;
  jobs->Run(caller, LaneToRead(bytes), bytes,
            [jobs, caller, asked, make, do_ask, fail](client::CancelToken* cancel) -> Rest {
              auto json = ParseObject(asked->body);
              if (const auto* error = std::get_if<ApiError>(&json)) return fail(*error);
              auto request = make(*std::get<ParsedJson>(json), asked->body);
              if (const auto* error = std::get_if<ApiError>(&request)) return fail(*error);
              asked->request = std::get<Request>(std::move(request));
              asked->body = {};
              const Lane lane = LaneToAsk(asked->bytes);
              if (lane == LaneToRead(asked->bytes)) return do_ask(cancel);
              return [jobs, caller, lane, bytes = asked->bytes, do_ask] {
                jobs->Run(caller, lane, bytes, do_ask);
              };
            });
}

}  // namespace tutti::gateway
