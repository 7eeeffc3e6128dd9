// The work of a process for a request, from when to when: a span of OpenTelemetry, and its JSON.
//
// Spans have ids, numbers and names of models; never texts of clients, nor of answers.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tutti::metrics {

using SpanValue = std::variant<std::string, int64_t, double, std::vector<std::string>>;

struct Span {
  enum class Kind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };  // OTLP's numbers

  std::string trace_id;   // as in TraceContext
  std::string span_id;    // its own
  std::string parent_id;  // empty: it is the first
  std::string name;
  Kind kind = Kind::kInternal;
  int64_t begin_ns = 0;  // since 1970
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, SpanValue>> attributes;
  bool failed = false;
};

// The begin of a text of UTF-8, `bytes_max` bytes at most, that ends behind a letter.
std::string WholeLetters(std::string_view text, size_t bytes_max);

// Nanoseconds since 1970.
int64_t SpanNow();

// One ExportTraceServiceRequest as OTLP's JSON, in one line without its end. Bytes that are
// no UTF-8 become U+FFFD. `service`: the program's name.
std::string SpansJson(std::string_view service, const std::vector<Span>& spans);

}  // namespace tutti::metrics
