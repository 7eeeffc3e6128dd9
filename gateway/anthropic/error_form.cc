#include "gateway/anthropic/error_form.h"

#include "gateway/json_text.h"

namespace tutti::gateway {

std::string_view AnthropicErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string AnthropicErrorBody(const ApiError& error) {
  return Dump({{"type", "error"},
               {"error", OrderedJson{{"type", AnthropicErrorType(error.status)},
                                     {"message", error.message}}}});
}

}  // namespace tutti::gateway
