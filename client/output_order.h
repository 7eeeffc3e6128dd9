// Checks a stream of responses against the promises of the API.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// Thread: one.
class OutputOrder {
 public:
  // `outputs`: how many were asked for; at least 1.
  explicit OutputOrder(uint32_t outputs) : asked_(outputs) {}
  // The caller has so many tokens of an output already, or all of it: nothing of those comes.
  // REQUIRES: no message has been checked
  void StartAt(uint32_t output, uint32_t tokens, bool finished) {
    outputs_[output] = {.tokens = tokens, .finished = finished, .finish = {}};
  }

  // INTERNAL: the message is about an output that was not asked for or has finished, or its tokens
  // repeat positions or leave a gap.
  absl::Status Check(const v1::GenerateResponse& message);
  // INTERNAL: the stream ends before every output has.
  absl::Status CheckEnd() const;
  // Finishes in order of the outputs.  REQUIRES: CheckEnd() is OK.
  std::vector<v1::Finish> ReleaseFinishes();

 private:
  struct Output {
    uint32_t tokens = 0;
    bool finished = false;
    v1::Finish finish;
  };
  const uint32_t asked_;
  std::map<uint32_t, Output> outputs_;  // those that a message has named
};

}  // namespace tutti::client
