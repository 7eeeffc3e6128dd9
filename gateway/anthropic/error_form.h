// Errors in the form of Anthropic's API.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api_error.h"

namespace tutti::gateway {

// {"type": "error", "error": {"type": ..., "message": ...}}
std::string AnthropicErrorBody(const ApiError& error);
// The kind of errors with that status of HTTP.
std::string_view AnthropicErrorType(int status);

}  // namespace tutti::gateway
