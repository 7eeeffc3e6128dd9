#include "metrics/span.h"

#include <unistd.h>

#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_info.h"

namespace tutti::metrics {
namespace {

// REQUIRES: `text` is UTF-8
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

struct ValueJson {
  std::string operator()(const std::string& text) const {
    return absl::StrCat("{\"stringValue\":", Quoted(text), "}");
  }
  std::string operator()(int64_t number) const {
    return absl::StrCat("{\"intValue\":\"", number, "\"}");
  }
  std::string operator()(double number) const {
    return absl::StrCat("{\"doubleValue\":", std::isfinite(number) ? number : 0.0, "}");
  }
  std::string operator()(const std::vector<std::string>& texts) const {
    std::string items;
    for (const std::string& text : texts) {
      absl::StrAppend(&items, items.empty() ? "" : ",", (*this)(text));
    }
    return absl::StrCat("{\"arrayValue\":{\"values\":[", items, "]}}");
  }
};

std::string AttributesJson(const std::vector<std::pair<std::string, SpanValue>>& attributes) {
  std::string items;
  for (const auto& [key, value] : attributes) {
    absl::StrAppend(&items, items.empty() ? "" : ",", "{\"key\":", Quoted(key),
                    ",\"value\":", std::visit(ValueJson(), value), "}");
  }
  return absl::StrCat("[", items, "]");
}

std::string SpanJson(const Span& span) {
  std::string json =
      absl::StrCat("{\"traceId\":\"", span.trace_id, "\",\"spanId\":\"", span.span_id, "\"");
  if (!span.parent_id.empty()) {
    absl::StrAppend(&json, ",\"parentSpanId\":\"", span.parent_id, "\"");
  }
  absl::StrAppend(&json, ",\"name\":", Quoted(span.name), ",\"kind\":", static_cast<int>(span.kind),
                  ",\"startTimeUnixNano\":\"", span.begin_ns, "\",\"endTimeUnixNano\":\"",
                  span.end_ns, "\"");
  absl::StrAppend(&json, ",\"attributes\":", AttributesJson(span.attributes));
  if (span.failed) absl::StrAppend(&json, ",\"status\":{\"code\":2}");
  return json + "}";
}

}  // namespace

int64_t SpanNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string SpansJson(std::string_view service, const std::vector<Span>& spans) {
  const std::string resource = AttributesJson({{"service.name", std::string(service)},
                                               {"service.version", std::string(BuildStamp())},
                                               {"process.pid", static_cast<int64_t>(getpid())}});
  std::string items;
  for (const Span& span : spans) absl::StrAppend(&items, items.empty() ? "" : ",", SpanJson(span));
  return absl::StrCat("{\"resourceSpans\":[{\"resource\":{\"attributes\":", resource,
                      "},\"scopeSpans\":[{\"scope\":{\"name\":\"tutti\"},\"spans\":[", items,
                      "]}]}]}");
}

}  // namespace tutti::metrics
