// The arguments of a function as the parameters of Qwen's XML (xml_calls.h), one by one: rules of
// EBNF by its schema.
//
// Pure.  Thread: any.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/json_text.h"
#include "gateway/parse/value_types.h"

namespace tutti::gateway {

struct XmlParameters {
  // A term of EBNF, without the markup of the function.
  std::string ebnf;
  // The parameters that are written as JSON, also where they are texts: all but texts of which the
  // schema says nothing, or which it lists.
  std::set<std::string, std::less<>> as_json;
};

struct SchemaProblem {
  std::string path;  // in the schema, with dots
  std::string what;
};

// By a schema whose text is `written`: properties in its order, the required ones always. `types`:
// as ParametersOf found them. A problem is what cannot be said of parameters one by one.
// *definitions_left: bytes of definitions that may yet stand with parameters that refer to them.
std::variant<XmlParameters, SchemaProblem> ParametersBySchema(const Json& schema,
                                                              std::string_view written,
                                                              const Parameters& types,
                                                              size_t* definitions_left);

// Any of the parameters, with any values; where none is known, any name.
std::string AnyParameters(const Parameters& types);

}  // namespace tutti::gateway
