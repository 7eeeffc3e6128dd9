// `tool_choice`: whether, and which, functions are to be called.
//
// Pure.  Thread: any.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "gateway/field_reader.h"

namespace tutti::gateway {

struct CallChoice {
  bool none = false;    // no calls are wanted
  bool forced = false;  // the answer is to be a call
  bool named = false;   // of the one function in `only`
  // The functions that may be called, each with its place in the field; empty: all.
  std::map<std::string, std::string, std::less<>> only;
};

CallChoice ReadCallChoice(FieldReader* fields);

}  // namespace tutti::gateway
