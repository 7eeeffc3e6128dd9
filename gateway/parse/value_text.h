// Values that models write without JSON's quotes.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "gateway/parse/answer_form.h"

namespace tutti::gateway {

// A value as JSON, without blanks around it: what it is where it is of the type, null, or else its
// text as a JSON string, blanks and all.
std::string JsonOfValue(std::string_view text, ValueType type);

// A number of JSON's grammar.
bool IsJsonNumber(std::string_view text);

}  // namespace tutti::gateway
