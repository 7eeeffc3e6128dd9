// An answer of /v1/responses: its events one by one, or whole. It has one item, a message with one
// part of text.
//
// Pure.  Thread: one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/answer_parts.h"
#include "gateway/answer_writer.h"

namespace tutti::gateway {

class ResponsesAnswer : public AnswerWriter {
 public:
  // `request`: what the answer repeats of it.
  ResponsesAnswer(bool stream, bool logprobs, const AnswerHead& head,
                  std::shared_ptr<const OrderedJson> request, EndTokens ends = {});

  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override;
  std::string OnEnd() override;
  std::string OnError(const ApiError& error) override;

 private:
  std::string Begin();
  std::string End();
  // An event of that type with these fields and the next number.
  std::string Event(std::string_view type, OrderedJson fields);
  OrderedJson Part(bool complete) const;
  OrderedJson Item(std::string_view status) const;
  // Of an event about the part.
  OrderedJson AboutPart() const;
  OrderedJson Response(std::string_view status) const;
  OrderedJson LogprobsOf(const v1::GenerateResponse& message) const;
  std::string_view status() const;

  const bool stream_;
  const bool logprobs_asked_;
  const AnswerHead head_;
  const std::string item_id_;
  const std::shared_ptr<const OrderedJson> request_;
  const EndTokens ends_;
  bool begun_ = false;
  int64_t events_ = 0;
  std::string text_;
  OrderedJson logprobs_ = OrderedJson::array();
  v1::Finish finish_;
  UsageSum usage_;
};

}  // namespace tutti::gateway
