#include "gateway/parse/json_scanner.h"

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool IsJsonBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view WithoutFirstBlanks(std::string_view text) {
  while (!text.empty() && IsJsonBlank(text.front())) text.remove_prefix(1);
  return text;
}

void AppendEscaped(std::string_view text, std::string* json) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  for (const char c : text) {
    if (const size_t found = kPlain.find(c); found != std::string_view::npos) {
      *json += '\\';
      *json += kLetters[found];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *json += "\\u00";
      *json += kHex[(c >> 4) & 15];
      *json += kHex[c & 15];
    } else {
      *json += c;
    }
  }
}

JsonScanner::At JsonScanner::Push(char c) {
  state_ = Next(c);
  if (state_ == State::kWrong) return At::kWrong;
  return state_ == State::kEnd ? At::kEnd : At::kInside;
}

JsonScanner::State JsonScanner::Next(char c) {
  if (in_string()) return OfString(c);
  if (state_ >= State::kMinus && state_ <= State::kExponentDigits) return OfNumber(c);
  if (state_ == State::kWord) {
    if (word_rest_.empty()) return AfterValue(c);
    if (c != word_rest_.front()) return State::kWrong;
    word_rest_.remove_prefix(1);
    return State::kWord;
  }
  if (IsJsonBlank(c) && state_ != State::kEnd && state_ != State::kWrong) return state_;
  switch (state_) {
    case State::kBegin:
      return c == '{' || c == '[' ? Open(c) : State::kWrong;
    case State::kValueOrEnd:
      return c == ']' ? Close() : OfValue(c);
    case State::kValue:
      return OfValue(c);
    case State::kKeyOrEnd:
      if (c == '}') return Close();
      [[fallthrough]];
    case State::kKey:
      is_key_ = true;
      return c == '"' ? State::kString : State::kWrong;
    case State::kColon:
      return c == ':' ? State::kValue : State::kWrong;
    case State::kAfter:
      return AfterValue(c);
    default:
      return State::kWrong;
  }
}

JsonScanner::State JsonScanner::OfValue(char c) {
  is_key_ = false;
  if (c == '{' || c == '[') return Open(c);
  if (c == '"') return State::kString;
  if (c == '-') return State::kMinus;
  if (c == '0') return State::kZero;
  if (IsDigit(c)) return State::kInteger;
  for (const std::string_view word : {"true", "false", "null"}) {
    if (c != word.front()) continue;
    word_rest_ = word.substr(1);
    return State::kWord;
  }
  return State::kWrong;
}

JsonScanner::State JsonScanner::OfString(char c) {
  if (state_ == State::kUnicode) {
    const int digit = HexDigit(c);
    if (digit < 0) return State::kWrong;
    unit_ = unit_ * 16 + static_cast<uint32_t>(digit);
    if (--digits_left_ > 0) return State::kUnicode;
    const bool second = unit_ >= 0xdc00 && unit_ <= 0xdfff;
    if (second != half_) return State::kWrong;
    half_ = unit_ >= 0xd800 && unit_ <= 0xdbff;
    return State::kString;
  }
  if (state_ == State::kEscape && c == 'u') {
    digits_left_ = 4;
    unit_ = 0;
    return State::kUnicode;
  }
  if (state_ == State::kString && c == '\\') return State::kEscape;
  if (half_) return State::kWrong;
  if (state_ == State::kEscape) {
    return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos ? State::kString
                                                                            : State::kWrong;
  }
  if (c == '"') return is_key_ ? State::kColon : State::kAfter;
  const bool is_control = static_cast<unsigned char>(c) < 0x20;
  return is_control && !takes_controls_ ? State::kWrong : State::kString;
}

JsonScanner::State JsonScanner::OfNumber(char c) {
  const bool digit = IsDigit(c), exponent = c == 'e' || c == 'E';
  switch (state_) {
    case State::kMinus:
      if (!digit) return State::kWrong;
      return c == '0' ? State::kZero : State::kInteger;
    case State::kInteger:
      if (digit) return State::kInteger;
      [[fallthrough]];
    case State::kZero:
      if (c == '.') return State::kPoint;
      return exponent ? State::kExponent : AfterValue(c);
    case State::kPoint:
      return digit ? State::kFraction : State::kWrong;
    case State::kFraction:
      if (digit) return State::kFraction;
      return exponent ? State::kExponent : AfterValue(c);
    case State::kExponent:
      if (c == '+' || c == '-') return State::kExponentSign;
      [[fallthrough]];
    case State::kExponentSign:
      return digit ? State::kExponentDigits : State::kWrong;
    default:
      return digit ? State::kExponentDigits : AfterValue(c);
  }
}

JsonScanner::State JsonScanner::AfterValue(char c) {
  if (IsJsonBlank(c)) return State::kAfter;
  const bool object = open_.back() == '{';
  if (c == ',') return object ? State::kKey : State::kValue;
  return c == (object ? '}' : ']') ? Close() : State::kWrong;
}

JsonScanner::State JsonScanner::Open(char c) {
  if (open_.size() >= kJsonDepthMax) return State::kWrong;
  open_ += c;
  return c == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
}

JsonScanner::State JsonScanner::Close() {
  open_.pop_back();
  return open_.empty() ? State::kEnd : State::kAfter;
}

}  // namespace tutti::gateway
