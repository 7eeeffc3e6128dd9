#include "gateway/json_text.h"

#include <algorithm>
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

}  // namespace

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
