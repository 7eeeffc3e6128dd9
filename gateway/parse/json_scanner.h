// Follows the text of a JSON object or list byte by byte, and says where it ends or is wrong.
//
// Accepts what nlohmann::json accepts of texts in UTF-8, which it takes for granted: objects and
// lists nest kJsonDepthMax times at most, a surrogate has its other half.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::gateway {

bool IsJsonBlank(char c);
std::string_view WithoutFirstBlanks(std::string_view text);
// `text` as the inside of a JSON string, at the end of *json. Pieces of a character may come apart.
void AppendEscaped(std::string_view text, std::string* json);

class JsonScanner {
 public:
  // `takes_controls`: line ends and other control characters may stand in strings, as models write
  // them; who passes the text on escapes them.
  explicit JsonScanner(bool takes_controls = false) : takes_controls_(takes_controls) {}

  enum class At { kInside, kEnd, kWrong };
  // REQUIRES: neither kEnd nor kWrong has been returned.
  At Push(char c);

  // Objects and lists that are open.
  size_t depth() const { return open_.size(); }
  bool in_string() const { return state_ >= State::kString && state_ <= State::kUnicode; }
  // Whether it is in the string that names a member.
  bool in_key() const { return in_string() && is_key_; }

 private:
  enum class State : uint8_t {
    kBegin,
    kValue,
    kValueOrEnd,  // behind '['
    kKey,
    kKeyOrEnd,  // behind '{'
    kColon,
    kAfter,  // behind a value
    kString,
    kEscape,
    kUnicode,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kWord,
    kEnd,
    kWrong,
  };
  State Next(char c);
  State OfValue(char c);
  State OfString(char c);
  State OfNumber(char c);
  State AfterValue(char c);
  State Open(char c);
  State Close();

  bool takes_controls_;
  State state_ = State::kBegin;
  std::string open_;  // '{' and '['
  bool is_key_ = false;
  bool half_ = false;  // of a pair of surrogates, the first has come
  int digits_left_ = 0;
  uint32_t unit_ = 0;           // of \u
  std::string_view word_rest_;  // of true, false, null
};

}  // namespace tutti::gateway
