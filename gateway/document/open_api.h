// The document of the HTTP port, in OpenAPI's form (3.1): its paths, and of each body the fields
// that its reader looks for, found by letting it read (field_log.h).
//
// Pure.  Thread: any.
#pragma once

#include <map>
#include <set>
#include <string>

#include "gateway/document/documented.h"
#include "gateway/field_log.h"
#include "gateway/json_text.h"

namespace tutti::gateway {

// What the reader of a body looks for, over all its examples.
// REQUIRES: it takes them
struct BodyFields {
  std::map<std::string, FieldUse> uses;  // as FieldLog has them
  std::set<std::string> closed;
  std::set<std::string> required;  // at the top: no example is taken without
};
BodyFields FieldsOf(const DocumentedBody& body);

// Fields that change no answer have "x-tutti-ignored", and those that are refused, unless their
// value asks for nothing, "x-tutti-refused".
std::string OpenApiDocument();

}  // namespace tutti::gateway
