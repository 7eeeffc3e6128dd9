#include "gateway/json_text.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// The deepest nesting of a text, counted without a parser's memory: brackets outside of strings.
int DepthOf(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

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

OrderedJson InWrittenOrder(std::string_view text, std::string_view name, const Json& value) {
  const std::string_view member = MemberText(text, name);
  const Json same = Json::parse(member.begin(), member.end(), nullptr, false);
  if (same == value) return OrderedJson::parse(member.begin(), member.end(), nullptr, false);
  return OrderedJson::parse(value.dump(-1, ' ', false, Json::error_handler_t::replace), nullptr,
                            false);
}

std::variant<Json, ApiError> ParseObject(std::string_view text) {
  if (DepthOf(text) > kJsonDepthMax) {
    return BadRequest(
        "", absl::StrCat("the body nests objects and lists more than ", kJsonDepthMax, " times"));
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return BadRequest("", "the body is not valid JSON in UTF-8");
  if (!json.is_object()) return BadRequest("", "the body is not a JSON object");
  return json;
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace tutti::gateway
