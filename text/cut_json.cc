#include "text/cut_json.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "text/limits.h"
#include "text/template_json.h"

namespace tutti::text {
namespace {

using nlohmann::ordered_json;

// Places from the end of the text at which it is tried to end it. Each is read as a whole.
constexpr size_t kTriesMax = 8;

// A beginning of the text that may be one of an object, and what closes it.
struct Ending {
  size_t end = 0;
  std::string closing;
};

// Follows a text that may be JSON.
class Follower {
 public:
  explicit Follower(std::string_view text) {
    for (size_t i = 0; i < text.size() && open_.size() <= kTextJsonDepthMax; ++i) Push(text[i], i);
    // A cut string ends before a cut escape. A key without a value is of no use.
    if (in_string_) {
      Add(escape_ > 0 ? escape_begin_ : text.size(), "\"");
    } else {
      Add(text.size(), "");
    }
  }

  // The last kTriesMax, in order.
  const std::deque<Ending>& endings() const { return endings_; }

 private:
  void Push(char c, size_t at) {
    if (in_string_) return PushInString(c, at);
    if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      open_ += c == '{' ? '}' : ']';
      Add(at + 1, "");
    } else if ((c == '}' || c == ']') && !open_.empty()) {
      open_.pop_back();
    } else if (c == ',') {
      Add(at, "");
    }
  }

  void PushInString(char c, size_t at) {
    if (escape_ > 0) {
      // \u and four digits; of two halves of a character the first alone is none.
      escape_ = escape_ == 1 && c == 'u' ? 5 : escape_ == 1 ? 0 : escape_ == 2 ? 0 : escape_ - 1;
    } else if (c == '\\') {
      escape_ = 1;
      escape_begin_ = at;
    } else if (c == '"') {
      in_string_ = false;
    }
  }

  void Add(size_t end, const std::string& quote) {
    if (endings_.size() == kTriesMax) endings_.pop_front();
    endings_.push_back({end, quote + std::string(open_.rbegin(), open_.rend())});
  }

  std::string open_;  // what closes each
  bool in_string_ = false;
  int escape_ = 0;  // characters to come, and one
  size_t escape_begin_ = 0;
  std::deque<Ending> endings_;
};

}  // namespace

TemplateJson ReadCutObject(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  TemplateJson none{ordered_json(ordered_json::value_t::discarded)};
  if (begin == std::string_view::npos || text[begin] != '{') return none;
  if (text.size() > kCutJsonBytesMax) return none;
  const Follower follower(text);
  for (auto ending = follower.endings().rbegin(); ending != follower.endings().rend(); ++ending) {
    TemplateJson read =
        ParseTemplateJson(std::string(text.substr(0, ending->end)) + ending->closing);
    if (read->is_object()) return read;
  }
  return none;
}

}  // namespace tutti::text
