// NAME, a line end, and ```python, tool_call(KEY=VALUE, ...), ```, or a JSON object of the
// arguments. An answer without a call begins with an empty line; <|assistant|> begins another.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/parse/call_parser.h"
#include "gateway/parse/json_scanner.h"
#include "gateway/parse/python_arguments.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class ChatGlmCalls final : public CallParser {
 public:
  explicit ChatGlmCalls(const Functions* functions) : CallParser(functions) {}
  void Push(char c, AnswerPieces* pieces) override;
  void Finish(AnswerPieces* pieces) override;
  bool in_text() const override { return state_ == State::kLine || state_ == State::kText; }

 private:
  enum class State : uint8_t { kLine, kText, kBody, kFence, kPython, kJson, kAfter };
  void PushLine(char c, AnswerPieces* pieces);
  void PushText(char c, AnswerPieces* pieces);
  void PushBody(char c, AnswerPieces* pieces);
  void PushFence(char c, AnswerPieces* pieces);
  void PushArguments(char c, AnswerPieces* pieces);
  void PushAfter(char c, AnswerPieces* pieces);
  bool MayBecomeName() const;

  State state_ = State::kLine;
  std::string line_;  // where the function's name would stand
  std::string name_;
  bool skip_blanks_ = false;
  bool announced_ = false;
  std::string held_;       // the call's text until it is announced
  std::string arguments_;  // before they have begun well
  PythonArguments python_;
  JsonScanner json_;
  // Tokens that begin turns are no part of any text.
  TagFinder tags_{{"<|assistant|>", "<|observation|>", "<|user|>", "<|system|>"}};
  NextWord body_{{"```python", "tool_call(", "{"}};
  NextWord fence_{{"tool_call("}};
  NextWord after_{{"```"}};
};

}  // namespace tutti::gateway
