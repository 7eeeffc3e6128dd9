// The spans of one Generate request: the call, and how long it waited, computed its prompt and
// generated. Written when the stream has its end.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "metrics/span_writer.h"
#include "metrics/trace_context.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::door {

class StreamTrace {
 public:
  // Traces nothing.
  StreamTrace() = default;
  // Begins now. `writer`: null: nothing is traced. `traceparent`: the caller's; one that is none is
  // as if it were not there.
  StreamTrace(metrics::SpanWriter* writer, std::string_view traceparent);

  void Identify(const std::string& request_id, RequestId id);
  // A message of the answer.
  void Count(const v1::GenerateResponse& response);
  // Nothing for a call that never said what it wants.
  void End(const absl::Status& status) const;

 private:
  std::vector<metrics::Span> Phases(const metrics::Span& call) const;

  metrics::SpanWriter* writer_ = nullptr;
  metrics::TraceContext parent_;  // without a span: there is none
  int64_t begin_ns_ = 0;
  bool identified_ = false;
  std::string request_id_;
  RequestId id_;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t tokens_ = 0;
  std::vector<std::string> reasons_;  // by output, as they ended
  std::optional<v1::Timing> timing_;  // of the first output that ended
};

}  // namespace tutti::door
