// The place where one request's output goes: a client's gRPC stream, or a test's list.
#pragma once

#include "base/status.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::door {

// Thread: any. Neither call blocks.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  // Appends to the output that the client reads. Responses of one output may be merged when the
  // client reads slowly; nothing is lost and positions stay in order. After a client fell behind by
  // kUnreadOutputBytesMax the stream ends by itself.
  virtual void Write(v1::GenerateResponse response) = 0;
  // Ends the stream once everything written was read. The first call wins.
  virtual void Finish(absl::Status status) = 0;
};

}  // namespace tutti::door
