// JSON from outside: refused unless it is an object in valid UTF-8, of bounded depth and number of
// parts, and none of its objects has a name twice.
//
// Pure.  Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "base/owned_json.h"
#include "gateway/api_error.h"

namespace tutti::gateway {

using Json = nlohmann::json;
// Keeps the order of members, for what we write.
using OrderedJson = nlohmann::ordered_json;

// A value from outside.
using ParsedJson = OwnedJson<Json>;

// The object, or why it is none.
std::variant<ParsedJson, ApiError> ParseObject(std::string_view text);

// The member `name` of the object that ParseObject has read from `text` as `value`: as it is
// written, with its members in their order. Where that takes more than `bytes_max`, or `text` is
// not that object's, without blanks and in another order.
std::string AsWritten(std::string_view text, std::string_view name, const Json& value,
                      size_t bytes_max);

// Compact. Bytes that are no UTF-8 become U+FFFD.
std::string Dump(const OrderedJson& json);

// The beginning of valid UTF-8, at most so many bytes: no character is cut.
std::string Shortened(std::string_view text, size_t bytes_max);

}  // namespace tutti::gateway
