#include "text/jinja/markup.h"

#include <string_view>

#include "base/status.h"
#include "text/jinja/format.h"

namespace tutti::text::jinja {
namespace {

std::string_view Entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

}  // namespace

absl::StatusOr<Text> ForceEscapeHtml(const Value& value, Work* work) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, work));
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.memory()));
  Text out;
  size_t at = 0;
  for (const Text::Run& run : text.runs()) {
    std::string escaped;
    for (; at < run.end; ++at) {
      const std::string_view entity = Entity(text.bytes()[at]);
      if (entity.empty()) {
        escaped.push_back(text.bytes()[at]);
      } else {
        escaped += entity;
      }
    }
    out.Append(escaped, run.from_user);
  }
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(out.size()));
  return out;
}

absl::StatusOr<Text> EscapeHtml(const Value& value, Work* work) {
  if (value.IsMarkup()) return value.text();
  return ForceEscapeHtml(value, work);
}

}  // namespace tutti::text::jinja
