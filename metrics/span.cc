#include "metrics/span.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_info.h"
#include "base/utf8.h"

namespace tutti::metrics {
namespace {

// The size of the letter that `text` begins with. 0: it begins with none, or is empty.
size_t LetterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, halves of a pair, and beyond the last.
  const unsigned second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : bytes;
}

// Bytes that are no UTF-8 become U+FFFD: JSON has none.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t bytes = LetterBytes(text);
    const char c = text[0];
    if (bytes == 0) {
      quoted += "\xef\xbf\xbd";
    } else if (bytes > 1) {
      quoted += text.substr(0, bytes);
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
    text.remove_prefix(std::max<size_t>(1, bytes));
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

std::string WholeLetters(std::string_view text, size_t bytes_max) {
  return std::string(WholeCharacters(text, bytes_max));
}

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
