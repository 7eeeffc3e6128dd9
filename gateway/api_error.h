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

// The field of a request's head that says where its stream goes on (event_id.h).
inline constexpr char kLastEventId[] = "Last-Event-ID";

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

// {"error": {...}}
std::string ErrorBody(const ApiError& error);

// The message to clients about a service that cannot be reached.
inline constexpr char kServiceUnreachable[] = "the service behind this gateway cannot be reached";

// The status without the words about where the service is and why it cannot be reached: those are
// the log's matter, not the world's.
absl::Status WithoutAddress(const absl::Status& status);

// The door that a request came through: the service names fields of its own API.
struct FieldNames {
  bool chat = false;
  bool prompt_is_list = false;  // of prompts; the request at fault is `prompt_index`
  size_t prompt_index = 0;
  std::string max_tokens = "max_tokens";  // as this client wrote it
  std::string messages = "messages";      // the list of them
};

// The service's refusal of a request. The fields it names are those of the client's JSON.
// `context_length` of the model, 0 where it is not known.
ApiError FromStatus(const absl::Status& status, const FieldNames& names, int64_t context_length);

}  // namespace tutti::gateway
