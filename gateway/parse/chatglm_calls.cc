#include "gateway/parse/chatglm_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

std::string TrimmedLine(const std::string& line) {
  const auto stripped = absl::StripAsciiWhitespace(line);
  return std::string(stripped);
}

}  // namespace

void ChatGlmCalls::Push(char c, AnswerPieces* pieces) {
  switch (state_) {
    case State::kLine:
      return PushLine(c, pieces);
    case State::kText:
      return PushText(c, pieces);
    case State::kBody:
      return PushBody(c, pieces);
    case State::kFence:
      return PushFence(c, pieces);
    case State::kPython:
    case State::kJson:
      return PushArguments(c, pieces);
    case State::kAfter:
      return PushAfter(c, pieces);
  }
}

bool ChatGlmCalls::MayBecomeName() const {
  if (line_.size() > kFunctionNameBytesMax + kMarkupBlanksMax) return false;
  const std::string begun = TrimmedLine(line_);
  return std::any_of(functions().begin(), functions().end(),
                     [&](const auto& function) { return function.first.starts_with(begun); });
}

void ChatGlmCalls::PushLine(char c, AnswerPieces* pieces) {
  line_ += c;
  if (c != '\n' && MayBecomeName()) return;
  const std::string line = std::exchange(line_, {});
  name_ = TrimmedLine(line);
  if (c == '\n' && IsFunction(name_)) {
    held_ = line;
    announced_ = false;
    state_ = State::kBody;
    return;
  }
  state_ = State::kText;
  skip_blanks_ = c == '\n' && name_.empty();
  PushAll(line, pieces);
}

void ChatGlmCalls::PushText(char c, AnswerPieces* pieces) {
  if (skip_blanks_ && IsJsonBlank(c)) return;
  skip_blanks_ = false;
  std::string text;
  const int tag = tags_.Push(c, &text);
  Text(text, pieces);
  if (tag == 0) state_ = State::kLine;
}

void ChatGlmCalls::PushBody(char c, AnswerPieces* pieces) {
  const NextWord::At at = body_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = body_.Release();
  if (at == NextWord::At::kOther) {
    Text(std::exchange(held_, {}), pieces);
    state_ = State::kText;
    return PushAll(all, pieces);
  }
  held_ += all;
  arguments_.clear();
  if (body_.found() == "{") {
    json_ = JsonScanner();
    held_.pop_back();
    state_ = State::kJson;
    return PushArguments(c, pieces);
  }
  python_ = PythonArguments();
  state_ = body_.found() == "tool_call(" ? State::kPython : State::kFence;
}

void ChatGlmCalls::PushFence(char c, AnswerPieces* pieces) {
  const NextWord::At at = fence_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = fence_.Release();
  if (at == NextWord::At::kFound) {
    held_ += all;
    state_ = State::kPython;
    return;
  }
  Text(std::exchange(held_, {}), pieces);
  state_ = State::kText;
  PushAll(all, pieces);
}

void ChatGlmCalls::PushArguments(char c, AnswerPieces* pieces) {
  bool wrong = false, end = false;
  if (state_ == State::kPython) {
    const PythonArguments::At at = python_.Push(c, &arguments_);
    wrong = at == PythonArguments::At::kWrong;
    end = at == PythonArguments::At::kEnd;
  } else {
    const JsonScanner::At at = json_.Push(c);
    wrong = at == JsonScanner::At::kWrong;
    end = at == JsonScanner::At::kEnd;
    if (!wrong) arguments_ += c;
  }
  // As with JsonCall: an object whose first member has begun.
  const bool begun_well =
      arguments_.size() > 1 && !WithoutFirstBlanks(std::string_view(arguments_).substr(1)).empty();
  if (!wrong && !announced_ && begun_well) {
    announced_ = Announce(name_, pieces);
    wrong = !announced_;
    if (announced_) held_.clear();
  }
  wrong |= held_.size() >= kHeldBytesMax;
  if (announced_) Arguments(std::exchange(arguments_, {}), pieces);
  if (wrong) {
    Text(std::exchange(held_, {}), pieces);
    state_ = State::kText;
    return PushText(c, pieces);
  }
  if (!announced_) held_ += c;
  if (!end) return;
  Complete();
  state_ = State::kAfter;
}

void ChatGlmCalls::PushAfter(char c, AnswerPieces* pieces) {
  const NextWord::At at = after_.Push(c);
  if (at == NextWord::At::kOpen) return;
  const std::string all = after_.Release();
  state_ = State::kText;
  skip_blanks_ = true;
  if (at == NextWord::At::kOther) PushAll(all, pieces);
}

void ChatGlmCalls::Finish(AnswerPieces* pieces) {
  switch (state_) {
    case State::kLine:
      return Text(std::exchange(line_, {}), pieces);
    case State::kText:
      return Text(tags_.Release(), pieces);
    case State::kBody:
      return Text(held_ + body_.Release(), pieces);
    case State::kFence:
      return Text(held_ + fence_.Release(), pieces);
    case State::kPython:
    case State::kJson:
      return Text(held_, pieces);
    case State::kAfter:
      return Text(WithoutFirstBlanks(after_.Release()), pieces);
  }
}

}  // namespace tutti::gateway
