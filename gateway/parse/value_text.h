// Values that models write without JSON's quotes.
//
// Pure.  Thread: any.
#pragma once

#include <string_view>

namespace tutti::gateway {

// A number of JSON's grammar.
bool IsJsonNumber(std::string_view text);

// One list or object, and nothing behind it.
bool IsNestedJson(std::string_view text);

}  // namespace tutti::gateway
