// A Generate call that takes no thread: its events come as calls on gRPC's threads, so that one
// program can have thousands under way.
#pragma once

#include <memory>

#include "base/status.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// Hears of one call. Thread: gRPC's, one call at a time; must not block.
class GenerateObserver {
 public:
  virtual ~GenerateObserver() = default;
  // Every message of the stream, in order.
  virtual void OnMessage(const v1::GenerateResponse& message) = 0;
  // The end, once, and nothing after it. OK: every output was finished. The call may be destroyed
  // from here on, also in here.
  virtual void OnEnd(absl::Status status) = 0;
};

// Made by Client::Start.
class GenerateCall {
 public:
  virtual ~GenerateCall() = default;
  // Ends the call soon; OnEnd still comes.  Thread: any, also after the end.
  virtual void Cancel() = 0;
};

}  // namespace tutti::client
