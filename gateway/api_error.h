// The answer to a client that gets no answer: an HTTP status and OpenAI's error body.
//
// Pure.  Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::gateway {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;
  std::string param;  // the field at fault, as the client wrote it; empty: none
  std::string code;   // empty: none
  std::optional<Duration> retry_after;
};

// A mistake in the request. `param` is the path of the field in its JSON.
ApiError BadRequest(std::string_view param, std::string_view message);
// An error for a status of HTTP, with the type that goes with it.
ApiError MakeError(int status, std::string_view message);
// The error of a service, or of this gateway, that cannot serve now: 503.
ApiError Unavailable(std::string_view why);

// {"error": {...}}
std::string ErrorBody(const ApiError& error);

// The message to clients about a service that cannot be reached.
inline constexpr char kServiceUnreachable[] = "the service behind this gateway cannot be reached";

// The status without the words about where the service is and why it cannot be reached: those are
// the log's matter, not the world's.
absl::Status WithoutAddress(const absl::Status& status);

}  // namespace tutti::gateway
