#include "gateway/parse/python_arguments.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "gateway/limits.h"
#include "gateway/parse/json_scanner.h"
#include "gateway/parse/value_text.h"

namespace tutti::gateway {
namespace {

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool IsWordByte(char c) { return IsNameByte(c) || c == '.' || c == '-' || c == '+'; }

void AppendUtf8(uint32_t code, std::string* text) {
  const auto add = [text](uint32_t byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

}  // namespace

PythonArguments::At PythonArguments::Push(char c, std::string* json) {
  state_ = Next(c, json);
  if (state_ == State::kWrong) return At::kWrong;
  return state_ == State::kEnd ? At::kEnd : At::kInside;
}

PythonArguments::State PythonArguments::Next(char c, std::string* json) {
  if (state_ >= State::kString && state_ <= State::kHex) return OfString(c, json);
  if (state_ == State::kWord) {
    if (!IsWordByte(c)) return EndWord(c, json);
    word_ += c;
    return word_.size() > kFunctionNameBytesMax ? State::kWrong : State::kWord;
  }
  if (state_ == State::kInName) return OfName(c, json);
  if (IsJsonBlank(c) && state_ < State::kEnd) return state_;
  switch (state_) {
    case State::kName:
      if (c == ')') {
        *json += has_names_ ? "}" : "{}";
        return State::kEnd;
      }
      if (!IsNameByte(c) || absl::ascii_isdigit(static_cast<unsigned char>(c))) {
        return State::kWrong;
      }
      word_ = c;
      return State::kInName;
    case State::kEquals:
      return OfName(c, json);
    case State::kElement:
      if (c == (open_.back() == '[' ? ']' : ')')) return Close(json);
      return OfValue(c, json);
    case State::kKey:
      if (c == '}') return Close(json);
      if (c != '"' && c != '\'') return State::kWrong;
      return OfValue(c, json);
    case State::kColon:
      if (c != ':') return State::kWrong;
      *json += ": ";
      return State::kValue;
    case State::kValue:
      return OfValue(c, json);
    case State::kAfter:
      return AfterValue(c, json);
    default:
      return State::kWrong;
  }
}

PythonArguments::State PythonArguments::OfName(char c, std::string* json) {
  if (state_ == State::kInName && IsNameByte(c)) {
    word_ += c;
    return word_.size() > kFunctionNameBytesMax ? State::kWrong : State::kInName;
  }
  if (IsJsonBlank(c)) return State::kEquals;
  if (c != '=') return State::kWrong;
  *json += std::exchange(has_names_, true) ? ", \"" : "{\"";
  AppendEscaped(std::exchange(word_, {}), json);
  *json += "\": ";
  return State::kValue;
}

void PythonArguments::Separate(std::string* json) {
  if (std::exchange(separate_, false)) *json += ", ";
}

PythonArguments::State PythonArguments::OfValue(char c, std::string* json) {
  is_key_ = state_ == State::kKey;
  if (c == '[' || c == '(' || c == '{') return Open(c, json);
  if (c == '"' || c == '\'') {
    Separate(json);
    *json += '"';
    quote_ = c;
    return State::kString;
  }
  if (!IsWordByte(c)) return State::kWrong;
  word_ = c;
  return State::kWord;
}

PythonArguments::State PythonArguments::Open(char c, std::string* json) {
  if (open_.size() + 1 >= kJsonDepthMax) return State::kWrong;
  Separate(json);
  open_ += c;
  *json += c == '{' ? '{' : '[';
  return c == '{' ? State::kKey : State::kElement;
}

PythonArguments::State PythonArguments::Close(std::string* json) {
  separate_ = false;
  *json += open_.back() == '{' ? '}' : ']';
  open_.pop_back();
  return State::kAfter;
}

PythonArguments::State PythonArguments::AfterValue(char c, std::string* json) {
  if (IsJsonBlank(c)) return State::kAfter;
  if (open_.empty()) {
    if (c == ',') return State::kName;
    if (c != ')') return State::kWrong;
    *json += '}';
    return State::kEnd;
  }
  const char end = open_.back() == '{' ? '}' : open_.back() == '[' ? ']' : ')';
  if (c == end) return Close(json);
  if (c != ',') return State::kWrong;
  separate_ = true;
  return end == '}' ? State::kKey : State::kElement;
}

PythonArguments::State PythonArguments::EndWord(char c, std::string* json) {
  Separate(json);
  if (word_ == "True" || word_ == "False" || word_ == "true" || word_ == "false") {
    *json += absl::AsciiStrToLower(word_);
  } else if (word_ == "None" || word_ == "null") {
    *json += "null";
  } else if (IsJsonNumber(word_)) {
    *json += word_;
  } else {
    return State::kWrong;
  }
  return AfterValue(c, json);
}

PythonArguments::State PythonArguments::OfString(char c, std::string* json) {
  if (state_ == State::kEscape) return OfEscape(c, json);
  if (state_ == State::kHex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return State::kWrong;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    code_ = code_ * 16 + static_cast<uint32_t>(digit);
    return --digits_left_ > 0 ? State::kHex : EndHex(json);
  }
  if (c == '\\') return State::kEscape;
  if (c == '\n') return State::kWrong;
  if (c != quote_) {
    AppendEscaped(std::string_view(&c, 1), json);
    return State::kString;
  }
  *json += '"';
  return is_key_ ? State::kColon : State::kAfter;
}

PythonArguments::State PythonArguments::OfEscape(char c, std::string* json) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kPlain = "\a\b\f\n\r\t\v\\'\"";
  code_ = 0;
  digits_left_ = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits_left_ > 0) return State::kHex;
  if (const size_t found = kLetters.find(c); found != std::string_view::npos) {
    AppendEscaped(kPlain.substr(found, 1), json);
  } else if (c != '\n') {
    // An escape that Python does not know stays as it stands.
    AppendEscaped("\\" + std::string(1, c), json);
  }
  return State::kString;
}

PythonArguments::State PythonArguments::EndHex(std::string* json) {
  if (code_ > 0x10ffff || (code_ >= 0xd800 && code_ <= 0xdfff)) return State::kWrong;
  std::string text;
  AppendUtf8(code_, &text);
  AppendEscaped(text, json);
  return State::kString;
}

}  // namespace tutti::gateway
