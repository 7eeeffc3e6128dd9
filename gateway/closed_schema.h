// Schemas as clients of vLLM mean them: an object whose schema names its members and says nothing
// of others has no others. JSON Schema would let it have any, and small models write them for ever.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "gateway/json_text.h"

namespace tutti::gateway {

// The schema, whose text is `written`, with `additionalProperties: false` in such objects. One that
// brings several schemas together in a place (allOf, or $ref beside others) is left as it is: what
// one of them does not name another may.
std::string ClosedSchema(const Json& schema, std::string_view written);

}  // namespace tutti::gateway
