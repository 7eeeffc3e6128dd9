// The text of one choice of a chat, as content, reasoning and calls in OpenAI's form.
//
// A pure function of the answer's id and the messages so far.  Thread: one.
#pragma once

#include <memory>
#include <string>

#include "gateway/json_text.h"
#include "gateway/parse/answer_parser.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class ChoiceText {
 public:
  // `options`: null: all is content. `index`: of the choice in the answer.
  ChoiceText(std::shared_ptr<const ParseOptions> options, bool old_reasoning_name,
             std::string answer_id, size_t index);

  // What the first message of the stream says of the prompt. Before Take.
  void Begin(const v1::Started& started) { parser_->BeginInReasoning(started.in_reasoning()); }
  // The pieces that the message adds; to be called for every message of the choice, in order.
  AnswerPieces Take(const v1::GenerateResponse& message);
  // A piece as the `delta` of a chunk.
  OrderedJson DeltaJson(const AnswerPiece& piece) const;
  // All pieces as the `message` of a whole answer.
  OrderedJson MessageJson(const AnswerPieces& pieces) const;
  // "stop", "length" or "tool_calls", of what has been taken.
  const char* FinishReason(v1::FinishReason reason) const {
    return FinishReason(reason, parser_->has_calls());
  }
  const char* FinishReason(v1::FinishReason reason, bool has_calls) const;
  // A call was announced that has not become whole.
  bool has_broken_call() const { return parser_->first_broken_call().has_value(); }
  // The name of a call of this choice.
  std::string CallId(size_t call) const;

 private:
  void SetReasoning(const std::string& text, OrderedJson* json) const;

  bool parses_;
  bool named_call_;  // the request named the function, which is no end by calls
  bool old_reasoning_name_;
  std::string answer_id_;
  size_t index_;
  std::unique_ptr<AnswerParser> parser_;
};

}  // namespace tutti::gateway
