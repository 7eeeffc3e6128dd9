// JSON from outside: refused unless it is an object in valid UTF-8, of bounded depth and number of
// parts, and none of its objects has a name twice.
//
// Pure.  Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/api_error.h"

namespace tutti::gateway {

using Json = nlohmann::json;
// Keeps the order of members, for what we write.
using OrderedJson = nlohmann::ordered_json;

// The object, or why it is none.
std::variant<Json, ApiError> ParseObject(std::string_view text);

// The member `name` of the object that ParseObject has read from `text` as `value`, with its
// members in the order in which they are written; in another order if `text` is not that object's.
//
// Takes time with the square of an object's members: for small values only.
OrderedJson InWrittenOrder(std::string_view text, std::string_view name, const Json& value);

// Compact. Bytes that are no UTF-8 become U+FFFD.
std::string Dump(const OrderedJson& json);

// The beginning of valid UTF-8, at most so many bytes: no character is cut.
std::string Shortened(std::string_view text, size_t bytes_max);

}  // namespace tutti::gateway
