#include "gateway/json_text.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// The size that a text has as JSON, counted without a parser's memory.
struct Extent {
  int depth = 0;      // the deepest nesting
  int64_t parts = 0;  // texts, objects and lists
  int64_t numbers = 0;
};

bool IsOfNumber(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

Extent ExtentOf(std::string_view text) {
  Extent extent;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
      ++extent.parts;
    } else if (c == '[' || c == '{') {
      extent.depth = std::max(extent.depth, ++depth);
      ++extent.parts;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == 'n' || (IsOfNumber(c) && (i == 0 || !IsOfNumber(text[i - 1])))) {
      ++extent.numbers;  // or a null, which takes as much memory
    }
  }
  return extent;
}

constexpr std::string_view kJsonBlanks = " \t\r\n";

// The text of the last member of that name in an object, which is valid JSON; empty: none is found,
// as when its name is written with escapes.
std::string_view MemberText(std::string_view object, std::string_view name) {
  std::string_view found;
  int depth = 0;
  size_t key = 0, key_end = 0, value = 0;  // of the outer object's current member
  for (size_t i = 0; i < object.size(); ++i) {
    const char c = object[i];
    if (c == '"') {
      const size_t begin = ++i;
      while (i < object.size() && object[i] != '"') i += object[i] == '\\' ? 2 : 1;
      if (depth == 1 && value == 0) std::tie(key, key_end) = std::pair(begin, i);
    } else if (c == ':' && depth == 1) {
      value = i + 1;
    } else if ((c == ',' && depth == 1) || (c == '}' && depth == 1)) {
      if (value > 0 && object.substr(key, key_end - key) == name) {
        found = object.substr(value, i - value);
      }
      value = 0;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return found;
}

// Builds a value from its text's events, and stops at a name that stands twice in one object: what
// the library's own builder and a callback for each value would take three times as long for.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Json* root) : root_(root) {}

  const std::optional<std::string>& twice() const { return twice_; }
  // Of the value, or the name, that it was at when it stopped.
  std::string path() const {
    std::string path;
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i]->is_array()) {
        const bool innermost = i + 1 == open_.size();
        absl::StrAppend(&path, "[", open_[i]->size() - (innermost ? 0 : 1), "]");
      } else if (!names_[i].empty()) {
        absl::StrAppend(&path, path.empty() ? "" : ".", names_[i]);
      }
    }
    return path;
  }
  // Why it is no JSON, and the number of bytes that were.
  const std::string& why() const { return why_; }
  size_t position() const { return position_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }  // no JSON has it
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->emplace(name, nullptr);
    member_ = &*member;
    names_.back() = Shortened(name, kShownNameBytesMax);
    if (!is_new) twice_ = std::move(name);
    return is_new;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    why_ = error.what();
    return false;
  }

 private:
  template <typename Value>
  Json* Add(Value value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }
  bool Open(Json empty) {
    open_.push_back(Add(std::move(empty)));
    names_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    names_.pop_back();
    return true;
  }

  Json* const root_;
  std::vector<Json*> open_;         // objects and lists, each in the one before
  std::vector<std::string> names_;  // of the member that each of `open_` is at
  Json* member_ = nullptr;          // of the innermost object, whose name was read
  std::optional<std::string> twice_;
  std::string why_;
  size_t position_ = 0;
};

// The place of a byte, as editors count.
std::string PlaceOf(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const size_t line_end = before.rfind('\n');
  const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  return absl::StrCat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
                      before.size() - begin);
}

ApiError NoJson(std::string_view text, const Builder& builder) {
  const std::string path = builder.path();
  const std::string at = absl::StrCat(" at ", PlaceOf(text, builder.position()),
                                      path.empty() ? "" : absl::StrCat(", in ", path));
  const auto says = [&](const char* words) { return absl::StrContains(builder.why(), words); };
  if (says("surrogate")) {
    return BadRequest(path, absl::StrCat("the body has half a character", at,
                                         ": a \\uD800 to \\uDFFF without its other half, as texts "
                                         "have that were cut in the middle of an emoji"));
  }
  if (says("UTF-8")) return BadRequest(path, absl::StrCat("the body is not UTF-8", at));
  const bool ends = builder.position() >= text.size() || says("unexpected end of input");
  return BadRequest(path, absl::StrCat("the body is not valid JSON", at,
                                       ends ? ": it ends there, and is not complete" : ""));
}

}  // namespace

std::string AsWritten(std::string_view text, std::string_view name, const Json& value,
                      size_t bytes_max) {
  std::string_view member = MemberText(text, name);
  member.remove_prefix(std::min(member.find_first_not_of(kJsonBlanks), member.size()));
  member = member.substr(0, member.find_last_not_of(kJsonBlanks) + 1);
  if (member.size() <= bytes_max) {
    ParsedJson same;
    Builder builder(&*same);
    const bool is_json = Json::sax_parse(member.begin(), member.end(), &builder);
    if (is_json && *same == value) return std::string(member);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::variant<ParsedJson, ApiError> ParseObject(std::string_view text) {
  const Extent extent = ExtentOf(text);
  if (extent.depth > kJsonDepthMax) {
    return BadRequest(
        "", absl::StrCat("the body nests objects and lists more than ", kJsonDepthMax, " times"));
  }
  if (extent.parts > kJsonPartsMax) {
    return BadRequest("", absl::StrCat("the body has ", extent.parts,
                                       " texts, objects and lists, the limit is ", kJsonPartsMax));
  }
  if (extent.numbers > kJsonNumbersMax) {
    return BadRequest("", absl::StrCat("the body has ", extent.numbers, " numbers, the limit is ",
                                       kJsonNumbersMax));
  }
  // The parser takes it for the end of the text; those who read the text on do not.
  if (text.find('\0') != std::string_view::npos) {
    return BadRequest("", "the body has a byte 0, which is in no JSON");
  }
  ParsedJson json;
  Builder builder(&*json);
  const bool is_json = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!is_json && !builder.twice()) return NoJson(text, builder);
  // Readers differ in which of the two they take: a filter in front may have seen the other.
  if (builder.twice())
    return BadRequest(builder.path(), builder.path() + " stands twice in one object");
  if (!(*json).is_object()) return BadRequest("", "the body is not a JSON object");
  return json;
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string Shortened(std::string_view text, size_t bytes_max) {
  return std::string(WholeCharacters(text, bytes_max));
}

}  // namespace tutti::gateway
