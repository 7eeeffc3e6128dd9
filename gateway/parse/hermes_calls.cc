#include "gateway/parse/hermes_calls.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {

void HermesCalls::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return PushText(c, pieces);
    case State::kClose:
      return PushClose(c, pieces);
    case State::kCall:
      break;
  }
  const At at = PushCall(c, pieces);
  if (at == At::kEnd) state_ = State::kClose;
  if (at != At::kWrong) return;
  state_ = State::kText;
  PushText(c, pieces);
}

void HermesCalls::PushText(char c, AnswerPieces* pieces) {
  if (skip_line_ends_ && c == '\n') return;
  skip_line_ends_ = false;
  std::string text;
  const int tag = begin_.Push(c, &text);
  Text(text, pieces);
  if (tag == TagFinder::kNone) return;
  BeginCall(tag == 0 ? "\n<tool_call>" : "<tool_call>");
  state_ = State::kCall;
}

void HermesCalls::PushClose(char c, AnswerPieces* pieces) {
  const NextWord::At at = close_.Push(c);
  if (at == NextWord::At::kOpen) return;
  state_ = State::kText;
  const std::string other = close_.Release();
  if (at == NextWord::At::kOther) return PushAll(other, pieces);
  skip_line_ends_ = true;
}

void HermesCalls::Finish(AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return Text(begin_.Release(), pieces);
    case State::kCall:
      return FinishCall(pieces);
    case State::kClose:
      return Text(WithoutFirstBlanks(close_.Release()), pieces);
  }
}

}  // namespace tutti::gateway
