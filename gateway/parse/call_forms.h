// The parser of each form of calls.
//
// Pure.  Thread: any.
#pragma once

#include <memory>

#include "gateway/parse/call_parser.h"

namespace tutti::gateway {

// Null for ToolForm::kNone.  REQUIRES: `functions` outlives it.
std::unique_ptr<CallParser> MakeCallParser(ToolForm form, const Functions* functions);

}  // namespace tutti::gateway
