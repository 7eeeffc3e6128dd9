// The spans of one request for generated text: the request, and each call of the service that it
// makes, with the attributes of OpenTelemetry's conventions for generative AI.
//
// Thread: one at a time: the server's loop, or of a call over gRPC those that its answer comes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/http/message.h"
#include "metrics/span_writer.h"
#include "metrics/trace_context.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class RequestTrace {
 public:
  // Begins now. `writer`: null: nothing is written, and the client's context is passed on.
  RequestTrace(metrics::SpanWriter* writer, const HttpRequest& request, size_t calls);
  // The same of a call over gRPC, which makes one. `method`: "package.Service/Method".
  // `traceparent`: the caller's; empty: it has none.
  RequestTrace(metrics::SpanWriter* writer, std::string_view method, std::string_view traceparent);

  // The next call: what it tells the service as `traceparent`; empty: nothing. `kind`: "chat",
  // "text" or "response". `model`: its name in the answer.
  std::string BeginCall(const v1::GenerateRequest& call, std::string_view kind,
                        const std::string& model);
  // A message of call `index`.
  void OnMessage(size_t index, const v1::GenerateResponse& message);
  // With the last of them the spans are written.
  void EndCall(size_t index, const absl::Status& status);

 private:
  using Attributes = std::vector<std::pair<std::string, metrics::SpanValue>>;

  RequestTrace(metrics::SpanWriter* writer, const std::optional<metrics::TraceContext>& parent,
               std::string name, Attributes attributes, size_t calls);

  struct Call {
    metrics::Span span;
    int64_t prompt_tokens = 0;
    int64_t tokens = 0;
    std::vector<std::string> reasons;  // by output, as they ended
  };

  metrics::SpanWriter* writer_;
  std::string passed_on_;  // where nothing is written
  metrics::Span request_;
  size_t calls_left_;
  std::vector<Call> calls_;
};

}  // namespace tutti::gateway
