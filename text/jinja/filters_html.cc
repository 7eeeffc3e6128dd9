// Filters that make HTML and URLs, or undo it.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/format.h"
#include "text/jinja/markup.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

absl::StatusOr<Value> Escape(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(Text text, EscapeHtml(self, call.work));
  return Value::Str(std::move(text), /*is_markup=*/true);
}

absl::StatusOr<Value> ForceEscape(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(Text text, ForceEscapeHtml(self, call.work));
  return Value::Str(std::move(text), /*is_markup=*/true);
}

absl::StatusOr<Value> Safe(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(Text text, ToText(self, call.work));
  return Value::Str(std::move(text), /*is_markup=*/true);
}

absl::StatusOr<Value> XmlAttributes(const Value& self, const Call& call) {
  if (!self.IsDict()) return TypeError(self, "has no items");
  Text out;
  for (const auto& [key, value] : self.dict()->items) {
    if (value.IsNone() || value.IsUndefined()) continue;
    TUTTI_ASSIGN_OR_RETURN(const Text name, EscapeHtml(key, call.work));
    if (!key.IsStr() || key.str().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("invalid character in attribute name: '", Absl(name.bytes()), "'"));
    }
    TUTTI_ASSIGN_OR_RETURN(const Text escaped, EscapeHtml(value, call.work));
    if (!out.empty() || BoolArgument(call, 0, true)) out.Append(" ", false);
    out.Append(name);
    out.Append("=\"", false);
    out.Append(escaped);
    out.Append("\"", false);
    TUTTI_RETURN_IF_ERROR(
        call.work->ChargeBytes(out.size() > kTemplateOutputBytesMax ? out.size() : 0));
  }
  return Value::Str(std::move(out));
}

// urllib.parse.quote; `in_query`: a space is +, and / is quoted.
absl::StatusOr<Text> Quote(const Value& value, bool in_query, Work* work) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, work));
  Text out;
  size_t at = 0;
  for (const Text::Run& run : text.runs()) {
    std::string quoted;
    for (; at < run.end; ++at) {
      const auto c = static_cast<unsigned char>(text.bytes()[at]);
      if (absl::ascii_isalnum(c) ||
          std::string_view("_.-~").find(static_cast<char>(c)) != std::string_view::npos) {
        quoted.push_back(static_cast<char>(c));
      } else if (c == '/' && !in_query) {
        quoted.push_back('/');
      } else if (c == ' ' && in_query) {
        quoted.push_back('+');
      } else {
        absl::StrAppendFormat(&quoted, "%%%02X", c);
      }
    }
    out.Append(quoted, run.from_user);
  }
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(out.memory()));
  return out;
}

absl::StatusOr<Value> UrlEncode(const Value& self, const Call& call) {
  if (self.IsStr() || self.IsNumber() || self.IsNone()) {
    TUTTI_ASSIGN_OR_RETURN(Text text, Quote(self, /*in_query=*/false, call.work));
    return Value::Str(std::move(text));
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (self.IsDict()) {
    pairs = self.dict()->items;
  } else {
    TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
    for (const Value& item : items->items) {
      TUTTI_ASSIGN_OR_RETURN(const auto pair, Iterate(item, call.work));
      if (pair->items.size() != 2) return absl::InvalidArgumentError("urlencode: not a pair");
      pairs.emplace_back(pair->items[0], pair->items[1]);
    }
  }
  Text out;
  for (const auto& [key, value] : pairs) {
    if (!out.empty()) out.Append("&", false);
    TUTTI_ASSIGN_OR_RETURN(const Text name, Quote(key, /*in_query=*/true, call.work));
    TUTTI_ASSIGN_OR_RETURN(const Text quoted, Quote(value, /*in_query=*/true, call.work));
    out.Append(name);
    out.Append("=", false);
    out.Append(quoted);
    if (out.size() > kTemplateOutputBytesMax) return call.work->ChargeBytes(out.size());
  }
  return Value::Str(std::move(out));
}

}  // namespace

const std::vector<Builtin>& HtmlFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {"e", Escape},  {"escape", Escape},       {"forceescape", ForceEscape},
      {"safe", Safe}, {"urlencode", UrlEncode}, {"xmlattr", XmlAttributes, {"autospace"}},
  };
  return *table;
}

}  // namespace tutti::text::jinja
