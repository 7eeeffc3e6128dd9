// The functions of a request as the grammar of their calls.
//
// Pure.  Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "gateway/parse_choice.h"

namespace tutti::gateway {

// A function of `tools`.
struct ToolFunction {
  std::string name;
  std::string path;                  // of the object that has its name, with a dot at its end
  const Json* parameters = nullptr;  // their schema, and its text
  std::string_view written;
  std::optional<bool> strict;
};

// Adds it to those that may be called. `exact`: its arguments are by its schema, else any.
void AddCallable(FieldReader* fields, const ToolFunction& function, bool exact,
                 AnswerWishes* wishes);

}  // namespace tutti::gateway
