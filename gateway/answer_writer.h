// The text that goes to a client for each message of the service.
//
// Pure.  Thread: one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "gateway/api_error.h"
#include "gateway/event_id.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // The text for a message of the call for prompt `prompt`. May be empty.
  virtual std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) = 0;
  // All calls ended well: the rest of a stream, or the whole body.
  virtual std::string OnEnd() = 0;
  // One did not, and nothing follows. Of streams that have begun.
  virtual std::string OnError(const ApiError& error) = 0;
  // What a stream says that has nothing to say: it is shown by no client.
  virtual std::string OnSilence() const { return ": still at it\n\n"; }
  // Why the answer cannot be given, since the last call of OnMessage or OnEnd.
  virtual const std::optional<ApiError>& error() const {
    static const std::optional<ApiError> none;
    return none;
  }
};

// How a client wants its stream.
struct EventOptions {
  bool ids = false;              // events have ids
  std::optional<EventId> after;  // it has all up to this one
};

}  // namespace tutti::gateway
