#include "gateway/parse/xml_calls.h"

#include <utility>

#include "gateway/limits.h"
#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {
namespace {

// What a value may end with beside its own tag.
constexpr std::string_view kNextParameter = "\n<parameter=";
constexpr std::string_view kEndOnALine = "\n</function>";

}  // namespace

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
    case State::kNextKey:
      return PushNextKey(c, pieces);
    case State::kMayEnd:
      return PushMayEnd(c, pieces);
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
  announced_ = false;
  given_.clear();
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
  const bool is_stray = at == NextWord::At::kFound && next_.found() == "</parameter>";
  const std::string all = next_.Release();
  if (is_stray && announced_) return;
  if (is_stray || at == NextWord::At::kOther || (is_end && !MakeSureItIsAnnounced(pieces))) {
    Text(std::exchange(held_, {}), pieces);
    state_ = State::kText;
    return PushAll(all, pieces);
  }
  if (!is_end) {
    if (!announced_) held_ += all;
    state_ = State::kKey;
    return;
  }
  EndFunction(pieces);
}

void XmlCalls::EndFunction(AnswerPieces* pieces) {
  Arguments(given_.empty() ? "{}" : "}", pieces);
  Complete();
  skip_line_ends_ = true;
  state_ = State::kClose;
}

void XmlCalls::PushKey(char c, AnswerPieces* pieces) {
  if (c != '>') {
    if (c == '\n' || name_.size() >= kFunctionNameBytesMax) return Fail(c, pieces);
    name_ += c;
    if (!announced_) held_ += c;
    return;
  }
  if (!MakeSureItIsAnnounced(pieces)) return Fail(c, pieces);
  const Parameters& parameters = functions().find(function_)->second;
  const auto found = parameters.find(name_);
  types_ = found == parameters.end() || found->second.is_text() ? nullptr : &found->second;
  std::string json = given_.empty() ? "{\"" : ", \"";
  given_.insert(name_);
  AppendEscaped(std::exchange(name_, {}), &json);
  json += types_ == nullptr ? "\": \"" : "\": ";
  Arguments(json, pieces);
  at_value_begin_ = true;
  in_json_text_ = escaped_ = false;
  value_.clear();
  state_ = State::kValue;
}

void XmlCalls::PushJsonText(char c, AnswerPieces* pieces) {
  TakeValue(std::string_view(&c, 1), pieces);
  if (!std::exchange(escaped_, !escaped_ && c == '\\')) in_json_text_ = c != '"';
}

void XmlCalls::PushValue(char c, AnswerPieces* pieces) {
  if (in_json_text_) return PushJsonText(c, pieces);
  in_json_text_ = c == '"' && types_ != nullptr && types_->is_json;
  std::string text;
  const int tag = value_end_.Push(c, &text);
  TakeValue(text, pieces);
  switch (tag) {
    case TagFinder::kNone:
      return;
    case 0:
    case 1:
      EndValue(pieces);
      state_ = State::kNext;
      return;
    case 2:
      state_ = State::kNextKey;
      return;
    default:
      end_tag_ = tag == 3 ? kEndOnALine : kEndOnALine.substr(1);
      state_ = State::kMayEnd;
      return;
  }
}

void XmlCalls::PushNextKey(char c, AnswerPieces* pieces) {
  if (c != '>') {
    name_ += c;
    if (c != '\n' && name_.size() < kFunctionNameBytesMax) return;
  } else if (functions().find(function_)->second.contains(name_) && !given_.contains(name_)) {
    EndValue(pieces);
    return PushKey(c, pieces);
  } else {
    name_ += c;
  }
  GoOnWithValue(kNextParameter, std::exchange(name_, {}), pieces);
}

void XmlCalls::PushMayEnd(char c, AnswerPieces* pieces) {
  const bool on_a_line = end_tag_ == kEndOnALine;
  const NextWord::At at = behind_end_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const bool closes = behind_end_.found() == "</tool_call>";
  const std::string all = behind_end_.Release();
  const bool found = at == NextWord::At::kFound && closes == has_outer_tag_;
  if (!found && (has_outer_tag_ || !on_a_line)) return GoOnWithValue(end_tag_, all, pieces);
  EndValue(pieces);
  EndFunction(pieces);
  if (!has_outer_tag_) PushAll(all, pieces);
}

void XmlCalls::GoOnWithValue(std::string_view tag, std::string_view rest, AnswerPieces* pieces) {
  state_ = State::kValue;
  TakeValue(tag, pieces);
  PushAll(rest, pieces);
}

void XmlCalls::TakeValue(std::string_view text, AnswerPieces* pieces) {
  if (text.empty()) return;
  if (std::exchange(at_value_begin_, false) && text.front() == '\n') text.remove_prefix(1);
  std::string json;
  if (types_ != nullptr && types_->is_json) {
    json = text;
  } else if (types_ != nullptr) {
    value_ += text;
    if (value_.size() <= kHeldBytesMax) return;
    // Longer than any value that is no text.
    types_ = nullptr;
    json = "\"";
    AppendEscaped(std::exchange(value_, {}), &json);
  } else {
    AppendEscaped(text, &json);
  }
  Arguments(json, pieces);
}

void XmlCalls::EndValue(AnswerPieces* pieces) {
  if (types_ == nullptr) {
    Arguments("\"", pieces);
  } else if (!types_->is_json) {
    Arguments(JsonOfValue(value_, *types_), pieces);
  }
  value_.clear();
}

void XmlCalls::PushClose(char c, AnswerPieces* pieces) {
  const NextWord::At at = close_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = close_.Release();
  if (at == NextWord::At::kFound) return;
  state_ = State::kText;
  PushAll(all, pieces);
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
      if (types_ != nullptr) Arguments(value_, pieces);
      return;
    case State::kNextKey:
      TakeValue(kNextParameter, pieces);
      TakeValue(name_, pieces);
      if (types_ != nullptr) Arguments(value_, pieces);
      return;
    case State::kMayEnd:
      // The outer tag, or nothing, is missing.
      EndValue(pieces);
      return EndFunction(pieces);
    case State::kClose:
      // A tag that was cut.
      return;
  }
}

}  // namespace tutti::gateway
