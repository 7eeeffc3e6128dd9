// JSON for templates, in which no integer loses digits.  Thread: any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/owned_json.h"

namespace tutti::text {

// A value of a request's.
using TemplateJson = OwnedJson<nlohmann::ordered_json>;

// `text` as JSON; discarded when it is not well-formed, or nests deeper than kTextJsonDepthMax. An
// integer beyond 64 bits, which the parser would round to a float, becomes a binary value that
// holds its digits.
TemplateJson ParseTemplateJson(std::string_view text);

// Gives a member of an object its value. The library does so too, but copies all others where it
// needs more room for them, and ends the process where it has no memory for that.
// REQUIRES: `object` is one.
void SetMember(nlohmann::ordered_json* object, std::string name, nlohmann::ordered_json&& value);

}  // namespace tutti::text
