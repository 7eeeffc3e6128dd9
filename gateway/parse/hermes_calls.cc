#include "gateway/parse/hermes_calls.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {

void HermesCalls::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return PushText(c, pieces);
    case State::kAgain:
      return PushAgain(c, pieces);
    case State::kClose:
      return PushClose(c, pieces);
    case State::kBehind:
      return PushBehind(c, pieces);
    case State::kCall:
      break;
  }
  const At at = PushCall(c, pieces);
  if (at == At::kEnd) {
    state_ = State::kClose;
    extra_braces_ = 0;
  }
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
  markup_ = tag == 0 ? "\n<tool_call>" : "<tool_call>";
  state_ = State::kAgain;
}

void HermesCalls::PushAgain(char c, AnswerPieces* pieces) {
  const NextWord::At at = again_.Push(c);
  if (at == NextWord::At::kOpen) return;
  std::string all = again_.Release();
  if (at == NextWord::At::kFound && c == '>' && markup_.size() < kHeldBytesMax) {
    markup_ += all;
    return;
  }
  if (at == NextWord::At::kFound && c == '{') {
    all.pop_back();
    BeginCall(std::exchange(markup_, {}) + all);
    state_ = State::kCall;
    return Push(c, pieces);
  }
  state_ = State::kText;
  Text(std::exchange(markup_, {}), pieces);
  PushAll(all, pieces);
}

void HermesCalls::PushClose(char c, AnswerPieces* pieces) {
  const NextWord::At at = close_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string other = close_.Release();
  if (at == NextWord::At::kFound && c == '>') {
    state_ = State::kBehind;
    return;
  }
  if (at == NextWord::At::kFound && ++extra_braces_ <= kExtraBracesMax) return;
  state_ = State::kText;
  PushAll(other, pieces);
}

void HermesCalls::PushBehind(char c, AnswerPieces* pieces) {
  const NextWord::At at = behind_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = behind_.Release();
  if (at == NextWord::At::kFound && behind_.found() == "</tool_call>") return;
  skip_line_ends_ = true;
  state_ = State::kText;
  PushAll(all, pieces);
}

void HermesCalls::Finish(AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return Text(begin_.Release(), pieces);
    case State::kAgain:
      return Text(std::exchange(markup_, {}) + again_.Release(), pieces);
    case State::kCall:
      return FinishCall(pieces);
    case State::kClose:
    case State::kBehind:
      // A tag that was cut.
      return;
  }
}

}  // namespace tutti::gateway
