#include "gateway/parse/llama_calls.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {

void LlamaCalls::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kBegin:
      return PushBegin(c, pieces);
    case State::kText:
      return PushText(c, pieces);
    case State::kObject:
      return PushObject(c, pieces);
    case State::kBetween:
      return PushBetween(c, pieces);
    case State::kCall:
      break;
  }
  const At at = PushCall(c, pieces);
  if (at == At::kEnd) {
    state_ = State::kBetween;
    extra_braces_ = 0;
  }
  if (at != At::kWrong) return;
  state_ = State::kText;
  PushText(c, pieces);
}

void LlamaCalls::PushBegin(char c, AnswerPieces* pieces) {
  const NextWord::At at = object_.Push(c);
  if (at == NextWord::At::kOpen) return;
  std::string blanks = object_.Release();
  blanks.pop_back();
  if (at == NextWord::At::kFound) {
    BeginCall(std::move(blanks));
    state_ = State::kCall;
  } else {
    state_ = State::kText;
    PushAll(blanks, pieces);
  }
  Push(c, pieces);
}

void LlamaCalls::PushText(char c, AnswerPieces* pieces) {
  std::string text;
  const int tag = tags_.Push(c, &text);
  Text(text, pieces);
  if (tag != 0) return;
  mark_ = "<|python_tag|>";
  state_ = State::kObject;
}

void LlamaCalls::PushObject(char c, AnswerPieces* pieces) {
  const NextWord::At at = object_.Push(c);
  if (at == NextWord::At::kOpen) return;
  std::string blanks = object_.Release();
  blanks.pop_back();
  if (at == NextWord::At::kFound) {
    BeginCall(std::exchange(mark_, {}) + blanks);
    state_ = State::kCall;
  } else {
    Text(std::exchange(mark_, {}) + blanks, pieces);
    state_ = State::kText;
  }
  Push(c, pieces);
}

void LlamaCalls::PushBetween(char c, AnswerPieces* pieces) {
  const NextWord::At at = between_.Push(c);
  if (at == NextWord::At::kOpen) return;
  std::string all = between_.Release();
  const bool is_extra = at == NextWord::At::kFound && c == '}';
  if (is_extra && ++extra_braces_ <= kExtraBracesMax) return;
  if (is_extra || at == NextWord::At::kOther) {
    state_ = State::kText;
    return PushAll(all, pieces);
  }
  if (c == '{') {
    all.pop_back();
    BeginCall(std::move(all));
    state_ = State::kCall;
    return Push(c, pieces);
  }
  mark_ = std::move(all);
  state_ = State::kObject;
}

void LlamaCalls::Finish(AnswerPieces* pieces) {
  switch (state_) {
    case State::kBegin:
      return Text(object_.Release(), pieces);
    case State::kText:
      return Text(tags_.Release(), pieces);
    case State::kObject:
      return Text(std::exchange(mark_, {}) + object_.Release(), pieces);
    case State::kCall:
      return FinishCall(pieces);
    case State::kBetween:
      return Text(WithoutFirstBlanks(between_.Release()), pieces);
  }
}

}  // namespace tutti::gateway
