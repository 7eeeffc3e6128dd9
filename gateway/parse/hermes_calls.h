// <tool_call>{"name": NAME, "arguments": {...}}</tool_call>, with line ends between; one line end
// before and all behind belong to the markup, and so do tags and braces that models write twice.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gateway/parse/json_calls.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class HermesCalls final : public JsonCalls {
 public:
  explicit HermesCalls(const Functions* functions) : JsonCalls(functions) {}
  void Push(char c, AnswerPieces* pieces) override;
  void Finish(AnswerPieces* pieces) override;
  bool in_text() const override { return state_ == State::kText || state_ == State::kBehind; }

 private:
  enum class State : uint8_t {
    kText,
    kCall,
    kAgain,   // behind <tool_call>: perhaps another
    kClose,   // behind the object
    kBehind,  // behind </tool_call>
  };
  void PushText(char c, AnswerPieces* pieces);
  void PushAgain(char c, AnswerPieces* pieces);
  void PushClose(char c, AnswerPieces* pieces);
  void PushBehind(char c, AnswerPieces* pieces);

  State state_ = State::kText;
  bool skip_line_ends_ = false;
  TagFinder begin_{{"\n<tool_call>", "<tool_call>"}};
  std::string markup_;  // that has come again
  NextWord again_{{"<tool_call>", "{"}};
  size_t extra_braces_ = 0;
  NextWord close_{{"</tool_call>", "}"}};
  NextWord behind_{{"</tool_call>", "<tool_call>"}};
};

}  // namespace tutti::gateway
