// An answer of /v1/responses: its events one by one, or whole. Its items are the model's reasoning,
// where it shows some, messages, each with one part of text, and calls of functions.
//
// Pure.  Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/answer_writer.h"
#include "gateway/openai/answer.h"
#include "gateway/openai/answer_parts.h"
#include "gateway/openai/choice_text.h"

namespace tutti::gateway {

class ResponsesAnswer : public AnswerWriter {
 public:
  // `request`: what the answer repeats of it.
  ResponsesAnswer(bool stream, const AnswerShape& shape, const AnswerHead& head,
                  std::shared_ptr<const OrderedJson> request);

  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override;
  std::string OnEnd() override;
  std::string OnError(const ApiError& error) override;

 private:
  enum class Kind { kMessage, kReasoning, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id;
    std::string text;           // of a call: its arguments
    std::string name, call_id;  // of a call
    // In a message: those of the tokens that came with its text.
    OrderedJson logprobs = OrderedJson::array();
    bool is_open = true;
  };

  std::string Begin();
  // An event of that type with these fields and the next number; nothing where there is no stream.
  std::string Event(std::string_view type, OrderedJson fields);
  // Ends the item that is open, and begins one.
  std::string Open(Kind kind, const AnswerPiece* call = nullptr);
  std::string Close(std::string_view status);
  // More text of the item that is open.
  std::string Add(const std::string& text, OrderedJson logprobs);
  std::string EndOfPart(const Item& item);
  bool is_last(Kind kind) const { return !items_.empty() && items_.back().kind == kind; }
  static std::string_view StatusOf(const Item& item, std::string_view status);
  static OrderedJson PartJson(const Item& item);
  static OrderedJson ItemJson(const Item& item, std::string_view status);
  // Members of an event about the last item, and about its part.
  OrderedJson AboutItem() const;
  OrderedJson AboutPart() const;
  OrderedJson Response(std::string_view status) const;
  OrderedJson LogprobsOf(const v1::GenerateResponse& message) const;
  // Tokens of the message that brought these.
  void CountReasoning(const AnswerPieces& pieces, int64_t tokens);
  std::string_view status() const;

  const bool stream_;
  const bool parses_;
  const bool logprobs_asked_;
  const AnswerHead head_;
  const std::shared_ptr<const OrderedJson> request_;
  const EndTokens ends_;
  ChoiceText parser_;
  bool begun_ = false;
  int64_t events_ = 0;
  std::vector<Item> items_;
  int64_t reasoning_tokens_ = 0;  // of messages that brought reasoning alone
  int64_t held_tokens_ = 0;       // of those since that brought nothing
  v1::Finish finish_;
  UsageSum usage_;
};

}  // namespace tutti::gateway
