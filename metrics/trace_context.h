// The place of a request in a trace: W3C's Trace Context.
//
// Pure, but for the ids that are drawn.  Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::metrics {

struct TraceContext {
  std::string trace_id;  // 32 lower hexadecimal digits, not all zero
  std::string span_id;   // 16 of them
  bool sampled = true;   // its spans are wanted
};

// The context in a `traceparent`; nothing for one that is none, which is to be treated as if it
// were not there.
std::optional<TraceContext> ParseTraceparent(std::string_view text);
std::string FormatTraceparent(const TraceContext& context);

// Never the same; not secret.
std::string NewTraceId();
std::string NewSpanId();

}  // namespace tutti::metrics
