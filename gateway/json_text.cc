#include "gateway/json_text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// The size that a text has as JSON, counted without a parser's memory.
struct Extent {
  int depth = 0;      // the deepest nesting
  int64_t parts = 0;  // texts, objects and lists
};

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

}  // namespace

std::string AsWritten(std::string_view text, std::string_view name, const Json& value,
                      size_t bytes_max) {
  std::string_view member = MemberText(text, name);
  member.remove_prefix(std::min(member.find_first_not_of(kJsonBlanks), member.size()));
  member = member.substr(0, member.find_last_not_of(kJsonBlanks) + 1);
  if (member.size() <= bytes_max) {
    const Json same = Json::parse(member.begin(), member.end(), nullptr, false);
    if (same == value) return std::string(member);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::variant<Json, ApiError> ParseObject(std::string_view text) {
  const Extent extent = ExtentOf(text);
  if (extent.depth > kJsonDepthMax) {
    return BadRequest(
        "", absl::StrCat("the body nests objects and lists more than ", kJsonDepthMax, " times"));
  }
  if (extent.parts > kJsonPartsMax) {
    return BadRequest("", absl::StrCat("the body has ", extent.parts,
                                       " texts, objects and lists, the limit is ", kJsonPartsMax));
  }
  std::vector<std::set<std::string>> names;  // of the objects that are open
  std::optional<std::string> twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return BadRequest("", "the body is not valid JSON in UTF-8");
  if (!json.is_object()) return BadRequest("", "the body is not a JSON object");
  // Readers differ in which of the two they take: a filter in front may have seen the other.
  if (twice.has_value()) {
    return BadRequest(twice->substr(0, 64), twice->substr(0, 64) + " stands twice in one object");
  }
  return json;
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string Shortened(std::string_view text, size_t bytes_max) {
  return std::string(WholeCharacters(text, bytes_max));
}

}  // namespace tutti::gateway
