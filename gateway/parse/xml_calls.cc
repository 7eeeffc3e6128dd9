#include "gateway/parse/xml_calls.h"

#include <utility>

#include "gateway/limits.h"
#include "gateway/parse/json_scanner.h"
#include "gateway/parse/value_text.h"

namespace tutti::gateway {

void XmlCalls::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return PushText(c, pieces);
    case State::kFunction:
      return PushFunction(c, pieces);
    case State::kName:
      return PushName(c, pieces);
    case State::kNext:
      return PushNext(c, pieces);
    case State::kKey:
      return PushKey(c, pieces);
    case State::kValue:
      return PushValue(c, pieces);
    case State::kClose:
      return PushClose(c, pieces);
  }
}

void XmlCalls::PushText(char c, AnswerPieces* pieces) {
  if (skip_line_ends_ && c == '\n') return;
  skip_line_ends_ = false;
  std::string text;
  const int tag = begin_.Push(c, &text);
  Text(text, pieces);
  if (tag == TagFinder::kNone) return;
  has_outer_tag_ = tag < 2;
  announced_ = has_parameters_ = false;
  held_ = tag % 2 == 0 ? "\n" : "";
  held_ += has_outer_tag_ ? "<tool_call>" : "<function=";
  name_.clear();
  state_ = has_outer_tag_ ? State::kFunction : State::kName;
}

void XmlCalls::PushFunction(char c, AnswerPieces* pieces) {
  const NextWord::At at = function_word_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = function_word_.Release();
  if (at == NextWord::At::kFound) {
    held_ += all;
    state_ = State::kName;
    return;
  }
  Text(std::exchange(held_, {}), pieces);
  state_ = State::kText;
  PushAll(all, pieces);
}

void XmlCalls::PushName(char c, AnswerPieces* pieces) {
  if (c != '>') {
    if (c == '\n' || name_.size() >= kFunctionNameBytesMax) return Fail(c, pieces);
    name_ += c;
    held_ += c;
    return;
  }
  if (!IsFunction(name_)) return Fail(c, pieces);
  held_ += c;
  function_ = std::exchange(name_, {});
  state_ = State::kNext;
}

void XmlCalls::PushNext(char c, AnswerPieces* pieces) {
  const NextWord::At at = next_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const bool is_end = next_.found() == "</function>";
  const std::string all = next_.Release();
  if (at == NextWord::At::kOther || (is_end && !MakeSureItIsAnnounced(pieces))) {
    Text(std::exchange(held_, {}), pieces);
    state_ = State::kText;
    return PushAll(all, pieces);
  }
  if (!is_end) {
    if (!announced_) held_ += all;
    state_ = State::kKey;
    return;
  }
  Arguments(has_parameters_ ? "}" : "{}", pieces);
  Complete();
  state_ = has_outer_tag_ ? State::kClose : State::kText;
  skip_line_ends_ = true;
}

void XmlCalls::PushKey(char c, AnswerPieces* pieces) {
  if (c != '>') {
    if (c == '\n' || name_.size() >= kFunctionNameBytesMax) return Fail(c, pieces);
    name_ += c;
    if (!announced_) held_ += c;
    return;
  }
  if (!MakeSureItIsAnnounced(pieces)) return Fail(c, pieces);
  const auto& types = functions().find(function_)->second;
  const auto found = types.find(name_);
  type_ = found == types.end() ? ValueType::kText : found->second;
  std::string json = std::exchange(has_parameters_, true) ? ", \"" : "{\"";
  AppendEscaped(std::exchange(name_, {}), &json);
  json += type_ == ValueType::kText ? "\": \"" : "\": ";
  Arguments(json, pieces);
  at_value_begin_ = true;
  value_.clear();
  state_ = State::kValue;
}

void XmlCalls::PushValue(char c, AnswerPieces* pieces) {
  std::string text;
  const int tag = value_end_.Push(c, &text);
  TakeValue(text, pieces);
  if (tag == TagFinder::kNone) return;
  EndValue(pieces);
  state_ = State::kNext;
}

void XmlCalls::TakeValue(std::string_view text, AnswerPieces* pieces) {
  if (text.empty()) return;
  if (std::exchange(at_value_begin_, false) && text.front() == '\n') text.remove_prefix(1);
  std::string json;
  if (type_ != ValueType::kText) {
    value_ += text;
    if (value_.size() <= kHeldBytesMax) return;
    // Longer than any value that is no text.
    type_ = ValueType::kText;
    json = "\"";
    AppendEscaped(std::exchange(value_, {}), &json);
  } else {
    AppendEscaped(text, &json);
  }
  Arguments(json, pieces);
}

void XmlCalls::EndValue(AnswerPieces* pieces) {
  Arguments(type_ == ValueType::kText ? "\"" : JsonOfValue(value_, type_), pieces);
  value_.clear();
}

void XmlCalls::PushClose(char c, AnswerPieces* pieces) {
  const NextWord::At at = close_.Push(c);
  if (at == NextWord::At::kOpen) return;
  state_ = State::kText;
  const std::string all = close_.Release();
  if (at == NextWord::At::kOther) PushAll(all, pieces);
}

bool XmlCalls::MakeSureItIsAnnounced(AnswerPieces* pieces) {
  if (announced_) return true;
  announced_ = Announce(function_, pieces);
  if (announced_) held_.clear();
  return announced_;
}

void XmlCalls::Fail(char c, AnswerPieces* pieces) {
  Text(announced_ ? "<parameter=" + name_ : held_, pieces);
  held_.clear();
  name_.clear();
  state_ = State::kText;
  PushText(c, pieces);
}

void XmlCalls::Finish(AnswerPieces* pieces) {
  switch (state_) {
    case State::kText:
      return Text(begin_.Release(), pieces);
    case State::kFunction:
    case State::kName:
      return Text(std::exchange(held_, {}) + function_word_.Release(), pieces);
    case State::kNext: {
      const std::string all = held_ + next_.Release();
      return Text(announced_ ? WithoutFirstBlanks(all) : all, pieces);
    }
    case State::kKey:
      return Text(announced_ ? "<parameter=" + name_ : held_, pieces);
    case State::kValue:
      TakeValue(value_end_.Release(), pieces);
      if (type_ != ValueType::kText) Arguments(value_, pieces);
      return;
    case State::kClose:
      return Text(WithoutFirstBlanks(close_.Release()), pieces);
  }
}

}  // namespace tutti::gateway
