// <tool_call>{"name": NAME, "arguments": {...}}</tool_call>, with line ends between; one line end
// before and all behind belong to the markup.
//
// Thread: one.
#pragma once

#include <cstdint>

#include "gateway/parse/json_calls.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class HermesCalls final : public JsonCalls {
 public:
  explicit HermesCalls(const Functions* functions) : JsonCalls(functions) {}
  void Push(char c, AnswerPieces* pieces) override;
  void Finish(AnswerPieces* pieces) override;
  bool in_text() const override { return state_ == State::kText; }

 private:
  enum class State : uint8_t { kText, kCall, kClose };
  void PushText(char c, AnswerPieces* pieces);
  void PushClose(char c, AnswerPieces* pieces);

  State state_ = State::kText;
  bool skip_line_ends_ = false;
  TagFinder begin_{{"\n<tool_call>", "<tool_call>"}};
  NextWord close_{{"</tool_call>"}};
};

}  // namespace tutti::gateway
